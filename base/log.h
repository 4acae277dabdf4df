/* Structured log: one line an event on stderr, `ts=... level=... comp=... event=... key=value ...` (logfmt).
 * Thread-safe: a line is one write(2). Values with spaces or quotes are the caller's to print with BR_Q(). */
#ifndef BRIAREUS_BASE_LOG_H
#define BRIAREUS_BASE_LOG_H

enum br_log_level { BR_DEBUG, BR_INFO, BR_WARN, BR_ERROR, BR_LOG_OFF };

/* The environment's BRIAREUS_LOG_FORMAT=json makes every line a JSON object with the same keys; so processes that are
 * started by this one write the same. comp: this process' name on every line ("scheduler", "worker", ...); copied.
 * Level defaults to BR_INFO. */
void br_log_init(const char *comp, enum br_log_level level);
int br_log_level_parse(const char *name, enum br_log_level *out);

/* br_log(BR_INFO, "seq_assigned", "req=%s device=%d", id, dev); event is a snake_case name, fmt may be NULL. */
void br_log(enum br_log_level level, const char *event, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Quotes a string for a log value: returns buf, `"..."` with quotes, backslashes and control bytes escaped. */
const char *br_log_quote(char *buf, unsigned long size, const char *text);
#define BR_Q(text) br_log_quote((char[600]){0}, 600, (text))

#endif
