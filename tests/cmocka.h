/* cmocka with the headers that it needs, in the order that it needs them. */
#ifndef BRIAREUS_TESTS_CMOCKA_H
#define BRIAREUS_TESTS_CMOCKA_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
