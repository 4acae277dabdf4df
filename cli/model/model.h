/* `briareus model ...`: look at, check, make and time model folders. */
#ifndef BRIAREUS_CLI_MODEL_MODEL_H
#define BRIAREUS_CLI_MODEL_MODEL_H

/* argv[0] is "model", argv[1] the command (inspect, verify, synth, bench). Returns the exit status: 0, 1 (something is
 * wrong with the model), 2 (with the command line). */
int br_cli_model(int argc, char **argv);

#endif
