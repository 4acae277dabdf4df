/* `briareus key ...`: API keys. */
#ifndef BRIAREUS_CLI_KEY_KEY_H
#define BRIAREUS_CLI_KEY_KEY_H

/* argv[0] is "key", argv[1] the command (new, check). Returns the exit status: 0, 1 (it could not be done, or the file
 * is wrong), 2 (wrong usage). */
int br_cli_key(int argc, char **argv);

#endif
