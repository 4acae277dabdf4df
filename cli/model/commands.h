/* The commands of `briareus model`, and what they share. Private to the folder. */
#ifndef BRIAREUS_CLI_MODEL_COMMANDS_H
#define BRIAREUS_CLI_MODEL_COMMANDS_H

#include <argp.h>

#include "cost/shape.h"

/* argv[0] is the command's name. */
int br_model_inspect(int argc, char **argv);
int br_model_verify(int argc, char **argv);
int br_model_synth(int argc, char **argv);
int br_model_bench(int argc, char **argv);

/* Runs argp with "briareus model NAME" as the program's name; 0, or 2 after a message. */
int br_model_parse(const struct argp *argp, int argc, char **argv, void *input);
/* auto, bfloat16 or float32; reports anything else through argp. */
enum br_numeric br_model_parse_numeric(const char *text, struct argp_state *state);
/* A number in min..max; reports anything else through argp. */
uint32_t br_model_parse_u32(const char *name, const char *text, uint32_t min, uint32_t max, struct argp_state *state);
const char *br_numeric_name(enum br_numeric numeric);

/* DIR/name exists. */
bool br_model_has_file(const char *dir, const char *name);

#endif
