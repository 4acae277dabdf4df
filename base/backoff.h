/* How long to wait before a process that died is started again: not at all the first time, then 0.1 s, doubling to 5 s
 * while it keeps dying young; from the beginning once it has lived for three seconds. */
#ifndef BRIAREUS_BASE_BACKOFF_H
#define BRIAREUS_BASE_BACKOFF_H

struct br_backoff {
    double next_s; /* zero at the start: struct br_backoff b = {0} */
};

/* The wait in seconds before the next start of something that lived for alive_s. */
double br_backoff_s(struct br_backoff *backoff, double alive_s);

#endif
