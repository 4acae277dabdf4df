/* How urgent a request is, and how long its model is to stay: slo, deadline, priority, keep_alive. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/gateway/request.h"

enum { MAX_DEADLINE_S = 7 * 86400 };

/* An unknown member would be an SLO that the client believes in and nobody keeps. */
static int slo_names(json_t *slo, struct br_problem *problem)
{
    for (void *at = json_object_iter(slo); at; at = json_object_iter_next(slo, at)) {
        const char *name = json_object_iter_key(at);
        if (strcmp(name, "ttft") != 0 && strcmp(name, "tbt") != 0 && strcmp(name, "deadline") != 0)
            return br_problem_set(problem, 400, "invalid_value", "slo",
                                  "Unknown member '%.60s' of 'slo': it has 'ttft', 'tbt' and 'deadline', in seconds.",
                                  name);
    }
    return 0;
}

static int urgency_slo(struct br_request *request, struct br_problem *problem)
{
    json_t *slo = json_object_get(request->root, "slo");
    struct br_seq_spec *base = &request->base;
    if (!slo || json_is_null(slo))
        return 0;
    if (!json_is_object(slo))
        return br_field_type("slo", "an object", slo, problem);
    if (slo_names(slo, problem) < 0 || br_field_number(slo, "ttft", 0.001, 86400, &base->ttft_s, problem) < 0 ||
        br_field_number(slo, "tbt", 0.001, 86400, &base->tbt_s, problem) < 0)
        return -1;
    return br_field_number(slo, "deadline", 0.001, MAX_DEADLINE_S, &base->deadline_s, problem);
}

/* As in vLLM, lower is more urgent and 0 usual; a step of one is a factor of two, within 2^-10 to 2^10. */
static int urgency_priority(struct br_request *request, struct br_problem *problem)
{
    int64_t priority = 0;
    if (br_field_int(request->root, "priority", INT32_MIN, INT32_MAX, &priority, NULL, problem) < 0)
        return -1;
    request->base.weight = ldexp(1, priority < -10 ? 10 : priority > 10 ? -10 : -(int)priority);
    return 0;
}

/* "5m", "1h30m" is not known: one number and one unit, as Ollama's users write it. */
static int duration_parse(const char *text, double *out)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"", 1}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
    char *rest;
    double value = strtod(text, &rest);
    if (rest == text || !isfinite(value))
        return -1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(rest, units[i].name) == 0) {
            *out = value * units[i].seconds;
            return 0;
        }
    return -1;
}

/* Ollama's habit: seconds as a number, or a text with a unit ("5m"); 0: not at all, below 0: for ever. */
static int urgency_keep_alive(struct br_request *request, struct br_problem *problem)
{
    const json_t *value = json_object_get(request->root, "keep_alive");
    const char *text = json_string_value(value);
    if (!value || json_is_null(value))
        return 0;
    if (json_is_number(value))
        request->keep_alive_s = json_number_value(value);
    else if (!text)
        return br_field_type("keep_alive", "a number of seconds or a text such as \"5m\"", value, problem);
    else if (duration_parse(text, &request->keep_alive_s) < 0)
        return br_problem_set(problem, 400, "invalid_value", "keep_alive",
                              "Invalid value for 'keep_alive': '%.40s' is no time such as \"30s\", \"5m\" or -1.",
                              text);
    if (!(request->keep_alive_s <= 1e9))
        return br_problem_set(problem, 400, "invalid_value", "keep_alive",
                              "Invalid value for 'keep_alive': at most 1e9 s; -1 is for ever.");
    request->keeps_alive = true;
    return 0;
}

int br_request_urgency(struct br_request *request, struct br_problem *problem)
{
    if (urgency_slo(request, problem) < 0 ||
        br_field_number(request->root, "deadline", 0.001, MAX_DEADLINE_S, &request->base.deadline_s, problem) < 0 ||
        urgency_priority(request, problem) < 0)
        return -1;
    return urgency_keep_alive(request, problem);
}
