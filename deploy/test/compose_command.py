#!/usr/bin/env python3
"""The words of a service's command in compose.yaml, one a line. Reads just the YAML that is used there."""
import re
import shlex
import sys

text = open(sys.argv[1]).read()
service = re.search(rf"^  {sys.argv[2]}:\n((?:    .*\n|\n)+)", text, flags=re.M)
folded = re.search(r"^    command: >-\n((?:      .*\n)+)", service.group(1), flags=re.M)
listed = re.search(r"^    command:\n((?:      - .*\n)+)", service.group(1), flags=re.M)
words = shlex.split(folded.group(1)) if folded else [l.strip()[2:] for l in listed.group(1).splitlines()]
print("\n".join(words))
