"""Runs random programs for a while: see ``make torture`` and CONTRIBUTING.md.

python -m torture [--seconds N] [--seed FIRST] [--count N] [--variant NAME] [--without NAME,NAME]
"""

from __future__ import annotations

import argparse
import sys
import time

from torture.left_out import LEFT_OUT
from torture.runner import Asked, again, run
from torture.variants import NAMES


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if set(names) - set(LEFT_OUT):
        raise argparse.ArgumentTypeError(f"choose from {', '.join(LEFT_OUT)}")
    return names


def main() -> int:
    """Exit code: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="torture", description="random programs, recorded")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None, help="the first; by default the time")
    parser.add_argument("--count", type=int, default=None, help="so many seeds, however long")
    parser.add_argument("--variant", default="plain", choices=NAMES)
    parser.add_argument("--without", type=_names, default=(), help="names, with commas between")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one seed")
    given = parser.parse_args()
    first = int(time.time()) if given.seed is None else given.seed
    asked = Asked(first, given.count, given.seconds, given.variant, given.without, given.timeout)
    print(f"torture: from seed {first}, variant {given.variant}", flush=True)
    result = run(asked, lambda line: print(line, flush=True))
    print(
        f"torture: {result.seeds} programs, {result.windows} windows, {result.events} events, "
        f"{len(result.findings)} failed"
    )
    for finding in result.findings:
        print(f"  seed {finding.seed}: {finding.how}; {again(asked, finding)}")
    return 1 if result.findings else 0


if __name__ == "__main__":
    sys.exit(main())
