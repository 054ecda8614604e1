# SPDX-License-Identifier: MIT
"""Case 32: the headers, the version map and the shared library name the same functions, and those alone.

exports.py NM LIBRARY MAP HEADER...
"""

import re
import subprocess
import sys


def declared(headers):
    """The functions that the headers declare as OVL_EXTERN."""
    names = []
    for path in headers:
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        text = re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.M | re.S)
        names += re.findall(r"\bOVL_EXTERN\b[^;()]*?\b(\w+)\s*\(", text)
    return names


def mapped(path):
    """The names that the version map makes global. Patterns would hide a function nobody declared."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    names = []
    for body in re.findall(r"global:(.*?)(?:local:|\})", text, flags=re.S):
        names += re.findall(r"[^\s;]+", body)
    return names


def exported(nm, library):
    """The symbols that the library defines for others; its version nodes (type A) are no functions."""
    command = [nm, "-D", "--defined-only", "--format=posix", library]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = [line.split()[:2] for line in lines]
    return [name.split("@")[0] for name, kind in symbols if kind != "A"]


def main():
    nm, library, version_map = sys.argv[1:4]
    lists = {
        "headers": declared(sys.argv[4:]),
        "map": mapped(version_map),
        "library": exported(nm, library),
    }
    faults = []
    everything = set().union(*lists.values())
    for place, names in lists.items():
        faults += [f"{name}: not in the {place}" for name in sorted(everything - set(names))]
        faults += [f"{name}: twice in the {place}" for name in sorted(set(names)) if names.count(name) > 1]
    faults += [f"{name}: does not begin with ovl_" for name in sorted(everything) if not name.startswith("ovl_")]
    if not everything:
        faults.append("no function found anywhere")
    print("\n".join(faults) if faults else f"{len(everything)} functions, the same in all three")
    return 1 if faults else 0


sys.exit(main())
