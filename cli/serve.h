/* The daemons' commands. Each returns the exit status: 0 clean, 1 failed, 2 wrong usage. */
#ifndef BRIAREUS_CLI_SERVE_H
#define BRIAREUS_CLI_SERVE_H

int br_cli_serve(int argc, char **argv);
int br_cli_scheduler(int argc, char **argv);
int br_cli_worker(int argc, char **argv);

#endif
