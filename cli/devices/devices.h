/* `briareus load --find-devices`: the fewest devices that hold a target, for each policy, on real processes. */
#ifndef BRIAREUS_CLI_DEVICES_DEVICES_H
#define BRIAREUS_CLI_DEVICES_DEVICES_H

/* `briareus load ...`; what stands behind a word "--" is for `briareus serve`. */
int br_cli_load_or_find(int argc, char **argv);

#endif
