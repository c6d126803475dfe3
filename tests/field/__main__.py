"""Compare what libraries see of opscope: ``python -m field [NAME ...] [--mode MODE]``.

Without names, all of them. A table has a line for each; under it what differs, and the exit code is
1 where anything does. What two plain runs differ in already is left out. ``--page`` writes
``docs/works-with.md`` of the last results of each library.
"""

from __future__ import annotations

import argparse
import sys
import time

from field.environment import install, make_environment
from field.libraries import LIBRARIES, Library
from field.outcome import OPERATOR, differences
from field.results import Result, write_page
from field.runs import MODES, run

_MOST_LINES = 12
"""Of one mode; all are in ``build/field/results``."""


def main(arguments: list[str]) -> int:
    """The exit code: 1 if any library can tell that it is recorded."""
    parser = argparse.ArgumentParser(prog="python -m field")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--mode", choices=list(MODES), action="append")
    parser.add_argument("--page", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.page:
        write_page()
        return 0
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
    operators = sum(plain.operators.values())
    ran = f"{len(plain.tests)} tests" if library.tests else "program"
    result = Result(library, ran, plain.exit_code, operators, plain.seconds)
    said = f"{result.version:32} {ran:10} {operators:8,} operators, ends with {plain.exit_code}"
    print(said, end="", flush=True)
    for mode in modes:
        if mode == "beside" and not library.profiles_itself:
            continue
        found = differences(plain, run(library, mode))
        if found:
            changing = differences(plain, run(library, None))
            is_random = any(about.startswith(OPERATOR) for about in changing)
            found = {
                about: how
                for about, how in found.items()
                if about not in changing and not (is_random and about.startswith(OPERATOR))
            }
        print(f"  {mode}: {len(found) or 'same'}", end="", flush=True)
        result.modes[mode] = [f"{about}: {how}" for about, how in found.items()]
    result.save()
    print(f"  ({time.monotonic() - begun:.0f} s)")
    for mode, lines in result.modes.items():
        for line in lines[:_MOST_LINES]:
            print(f"    {mode}: {line}")
    sys.stdout.flush()
    return any(result.modes.values()) or bool(library.tests and not plain.tests)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
