/* A reader of the Prometheus text format 0.0.4 that is stricter than the server: families whole and once, TYPE before
 * samples, known types, names and labels well formed, histograms cumulated with +Inf equal to _count. */
#ifndef BRIAREUS_TESTS_PROM_CHECK_H
#define BRIAREUS_TESTS_PROM_CHECK_H

/* Fails the test at the first thing that is wrong; the text is changed while it is read and then as before. */
void prom_check(char *text);
/* Value of the sample whose line begins with `sample` (name and labels) and a blank; fails the test without one. */
double prom_value(const char *text, const char *sample);

#endif
