"""Compare what libraries see of opscope: ``python -m field [NAME ...] [--mode MODE]``.

Without names, all of them. A table has a line for each; under it what differs, and the exit code is
1 where anything does. What two plain runs differ in already is left out.
"""

from __future__ import annotations

import argparse
import sys
import time

from field.environment import install, make_environment
from field.libraries import LIBRARIES, Library
from field.outcome import differences
from field.runs import MODES, run


def main(arguments: list[str]) -> int:
    """The exit code: 1 if any library can tell that it is recorded."""
    parser = argparse.ArgumentParser(prog="python -m field")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--mode", choices=list(MODES), action="append")
    chosen = parser.parse_args(arguments)
    make_environment()
    told = False
    for library in LIBRARIES:
        if not chosen.names or library.name in chosen.names:
            told |= _compare(library, chosen.mode or list(MODES))
    return int(told)


def _compare(library: Library, modes: list[str]) -> bool:
    """Print its lines of the table; whether anything differs."""
    install(library)
    begun = time.monotonic()
    plain = run(library, None)
    ran = f"{len(plain.tests)} tests" if library.tests else "program"
    version = library.requirements.split()[0]
    print(f"{version:26} {ran:12} ends with {plain.exit_code}", end="", flush=True)
    told = []
    for mode in modes:
        if mode == "beside" and not library.profiles_itself:
            continue
        found = differences(plain, run(library, mode))
        if found:
            changing = differences(plain, run(library, None))
            found = [one for one in found if _about(one) not in map(_about, changing)]
        print(f"  {mode}: {len(found) or 'same'}", end="", flush=True)
        told += [f"    {mode}: {one}" for one in found]
    print(f"  ({time.monotonic() - begun:.0f} s)", *told, sep="\n", flush=True)
    return bool(told) or bool(library.tests and not plain.tests)


def _about(difference: str) -> str:
    """What differs, without how."""
    return difference.partition(":")[0] if difference.startswith("test ") else difference


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
