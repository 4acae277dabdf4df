#!/usr/bin/env python3
"""Carries out a Dockerfile's steps without Docker: each stage in a copy of a bare Debian root, by chroot. Needs root.

    run_dockerfile.py DOCKERFILE CONTEXT BARE_ROOT WORK  ->  the last stage's root is WORK/<number>, which is printed

FROM (debian:* only), ARG, ENV, WORKDIR, COPY [--from=STAGE], RUN, USER are carried out; VOLUME, EXPOSE, HEALTHCHECK,
ENTRYPOINT and CMD are checked for form. Anything else is an error: what cannot be done here must not look done."""
import json
import os
import re
import shutil
import subprocess
import sys


def instructions(path):
    text = re.sub(r"^\s*#.*\n", "", open(path).read(), flags=re.M)
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


class Stage:
    def __init__(self, root):
        self.root, self.dir, self.user, self.env = root, "/", "root", {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}

    def run(self, command):
        print(f"+ [{self.user}] {command}", file=sys.stderr, flush=True)
        chroot = ["chroot"] + ([f"--userspec={self.user}"] if self.user != "root" else []) + [self.root]
        subprocess.run(chroot + ["/bin/sh", "-c", f"cd {self.dir} && {command}"], env=self.env, check=True,
                       stdout=sys.stderr)

    def inside(self, path):
        return self.root + os.path.normpath(os.path.join(self.dir, path))


def ignored(context):
    path = os.path.join(context, ".dockerignore")
    return [l.strip() for l in open(path) if l.strip() and not l.startswith("#")] if os.path.exists(path) else []


def copy(stage, stages, context, rest):
    words = rest.split()
    source = context
    if words[0].startswith("--from="):
        source = stages[words.pop(0)[len("--from="):]].root
    *froms, to = words
    target = stage.inside(to)
    for name in froms:
        path = os.path.normpath(os.path.join(source, name.lstrip("/")))
        if os.path.isdir(path):
            skip = shutil.ignore_patterns(*ignored(context)) if source == context else None
            top = lambda folder, names: skip(folder, names) if skip and folder == path else set()
            shutil.copytree(path, target, ignore=top, symlinks=True, dirs_exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(path, target)


def begin(bare, work, rest, stages):
    match = re.fullmatch(r"debian:\S+(?: AS (\w+))?", rest, flags=re.I)
    if not match:
        sys.exit(f"FROM {rest}: only debian images can be stood in for here")
    root = os.path.join(work, str(len(stages)))
    subprocess.run(["cp", "-a", "--reflink=auto", bare, root], check=True)
    stage = Stage(root)
    stages[match.group(1) or str(len(stages))] = stage
    return stage


def main(dockerfile, context, bare, work):
    stages, stage = {}, None
    for word, rest in instructions(dockerfile):
        if word == "FROM":
            stage = begin(bare, work, rest, stages)
        elif word == "RUN":
            stage.run(rest)
        elif word == "COPY":
            copy(stage, stages, context, rest)
        elif word == "WORKDIR":
            stage.dir = os.path.normpath(os.path.join(stage.dir, rest))
            os.makedirs(stage.root + stage.dir, exist_ok=True)
        elif word == "USER":
            stage.user = rest
        elif word in ("ENV", "ARG"):
            key, _, value = rest.partition("=")
            stage.env[key] = value.strip('"')
        elif word in ("ENTRYPOINT", "CMD"):
            json.loads(rest)
        elif word not in ("VOLUME", "EXPOSE", "HEALTHCHECK"):
            sys.exit(f"{word}: not known here")
    if stage.user == "root":
        sys.exit("the last stage runs as root")
    print(stage.root)


if __name__ == "__main__":
    main(*sys.argv[1:])
