"""``python -m tests.public_traces FOLDER``: a line for every file, and 1 where any differs."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from tests.public_traces.compare import differences, read_by_opscope
from tests.public_traces.plain_reading import NoTraceError, read_plainly

from opscope.errors import OpscopeError
from opscope.storage.file_kind import FileKind, file_kind


def main(folder: str) -> int:
    """Compare all files of a folder."""
    outcomes: Counter[str] = Counter()
    for path in sorted(one for one in Path(folder).rglob("*") if one.is_file()):
        outcome, lines = compared(path)
        outcomes[outcome] += 1
        print(f"{outcome:9} {path.name}", *lines, sep="\n          ", flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))
    return int(outcomes["differs"] + outcomes["crashed"] > 0)


def compared(path: Path) -> tuple[str, list[str]]:
    """What comes of one, and what to say of it."""
    try:
        kind = file_kind(path)
        if kind not in (FileKind.CHROME, FileKind.OTHER):
            return "other", [kind.value]
        ours, doubts = read_by_opscope(path)
    except OpscopeError as error:
        ours, doubts = None, [str(error)]
    except Exception as error:  # which is what is looked for
        return "crashed", [repr(error)]
    try:
        plain = read_plainly(path)
    except NoTraceError as error:
        return ("refused" if ours is None else "mended"), [*doubts, f"plainly: {error}"]
    if ours is None:
        return ("differs" if plain.counts else "refused"), doubts
    found = differences(plain, ours)
    return ("differs" if found else "same"), [*found, *doubts]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
