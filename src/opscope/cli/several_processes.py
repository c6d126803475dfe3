"""What is known of each of several processes, as data: what is said of one, and which it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opscope.cli import rows
from opscope.trace.partition import Partition


def as_json(contents: Mapping[Partition, Mapping[str, Any]], **of_all: Any) -> str:
    """One object: for every process what its own command prints, and what is ``of_all``."""
    found = [{part.kind: part.number, **content} for part, content in contents.items()]
    return json.dumps({"processes": found, **of_all}, indent=2) + "\n"


def as_csv(heading: Sequence[str], rows_of: Mapping[Partition, Iterable[Sequence[object]]]) -> str:
    """The rows of every process, with which it is."""
    found = [[str(part), *row] for part, own in rows_of.items() for row in own]
    return rows.as_csv(("process", *heading), found)
