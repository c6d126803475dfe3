"""``make size``: how large the project is, beside the limits in ``limits.json``; 1 beyond one.

``ACCEPT=1`` writes the figures of today there. A commit that raises one says why.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from size.lines import lines_by_room
from size.named import named

LIMITS = Path(__file__).with_name("limits.json")


def measured() -> dict[str, int]:
    """All figures: lines of code of each part and room, and how many names of each kind."""
    return {**lines_by_room(), **named()}


def limits() -> dict[str, int]:
    """What each may be at most."""
    found: dict[str, int] = json.loads(LIMITS.read_text())
    return found


def exceeded(found: dict[str, int], allowed: dict[str, int]) -> dict[str, tuple[int, int]]:
    """By figure, what it is and may be; a room that is not known may have nothing."""
    return {
        what: (count, allowed.get(what, 0))
        for what, count in found.items()
        if count > allowed.get(what, 0)
    }


def main() -> int:
    """Print the table; the exit code says whether something grew."""
    parser = argparse.ArgumentParser(prog="make size")
    parser.add_argument("--accept", action="store_true", help="these are the limits from now on")
    found = measured()
    if parser.parse_args().accept:
        LIMITS.write_text(json.dumps(found, indent=1) + "\n")
    allowed = limits()
    for what, count in found.items():
        indent = "  " * what.count("/") if what not in ("src/opscope", "web/src") else ""
        print(f"{indent + what:40} {count:8,} of {allowed.get(what, 0):8,}")
    grown = exceeded(found, allowed)
    for what, (count, most) in grown.items():
        print(f"{what} has grown from {most:,} to {count:,}. Delete a mechanism, or run "
              "`make size ACCEPT=1` and say in the commit why.", file=sys.stderr)  # fmt: skip
    return int(bool(grown))


if __name__ == "__main__":
    sys.exit(main())
