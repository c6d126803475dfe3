"""What is known of each of several processes, as data: what is said of one, and which it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opscope.analysis.quantity_text import share_text
from opscope.cli import rows
from opscope.trace.partition import Partition, parts_text


def said_once(
    said: Mapping[Partition, Iterable[str]], among: int, most: int | None = None
) -> list[str]:
    """What is said of processes, of ``among`` so many: each once, with those that it is said of.

    Of what JSON has as well, ``most`` lines are enough.
    """
    of_text: dict[str, list[Partition]] = {}
    for part, lines in said.items():
        for line in lines:
            of_text.setdefault(line, []).append(part)
    found = [f"{parts_text(parts, among)}: {line}" for line, parts in of_text.items()]
    if most is None or len(found) <= most:
        return found
    return [*found[:most], f"{len(found) - most:,} more notes: --format json has all"]


def difference_text(what: str, share: float, process: object, middle: float, compared: int) -> str:
    """That a share is another in one process than in the middle one of those compared."""
    return (
        f"{what}: {share_text(share)} in {process}, {share_text(middle)} in the middle one of "
        f"{compared}."
    )


def as_json(contents: Mapping[Partition, Mapping[str, Any]], **of_all: Any) -> str:
    """One object: for every process what its own command prints, and what is ``of_all``."""
    found = [{part.kind: part.number, **content} for part, content in contents.items()]
    return json.dumps({"processes": found, **of_all}, indent=2) + "\n"


def as_csv(heading: Sequence[str], rows_of: Mapping[Partition, Iterable[Sequence[object]]]) -> str:
    """The rows of every process, with which it is."""
    found = [[str(part), *row] for part, own in rows_of.items() for row in own]
    return rows.as_csv(("process", *heading), found)
