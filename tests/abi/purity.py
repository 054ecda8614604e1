# SPDX-License-Identifier: MIT
"""The pure part of the library calls no libuv, no threads, no clock, no chance, and no input or output but the
invariant checker's last words.

purity.py NM ARCHIVE
"""

import re
import subprocess
import sys

IMPURE = re.compile(
    r"uv_\w+|pthread_\w+|thrd_\w+|mtx_\w+|cnd_\w+|sem_\w+|sched_\w+"
    r"|clock\w*|time|gettimeofday|\w*sleep|rand\w*|getenv"
    r"|open\w*|read|write|fopen\w*|fread|fwrite|socket|poll|epoll_\w+"
)


def main():
    nm, archive = sys.argv[1:3]
    command = [nm, "--undefined-only", "--format=posix", archive]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    members = sum(line.endswith(":") for line in lines)
    needed = {line.split()[0].split("@")[0] for line in lines if line and not line.endswith(":")}
    impure = sorted(name for name in needed if IMPURE.fullmatch(name))
    for name in impure:
        print(f"{archive} calls {name}")
    if not members:
        print(f"{archive} is empty")
    print(f"{members} objects need: {' '.join(sorted(needed))}")
    return 1 if impure or not members else 0


sys.exit(main())
