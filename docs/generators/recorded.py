"""The documentation's page about what can be recorded, made of the sources' declarations."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.recording.sources import SOURCES, Source, switches

_HEAD = """# What is recorded

Each row is a part of a trace: the option that records it, the kinds of its spans in `events`, and
its [tables](../file-format.md). Parts without an option are always recorded, GPU activity if torch
sees a GPU.

| part | content | `opscope.profile` | `opscope run` | kinds | tables |
|---|---|---|---|---|---|
"""


def what_is_recorded() -> str:
    """The page, as Markdown."""
    return _HEAD + "".join(f"| {' | '.join(_cells(source))} |\n" for source in SOURCES)


def _cells(source: Source) -> Iterator[str]:
    yield source.name
    yield source.records
    asking = [s for s in switches() if s in source.switches or s.option in source.wanted_with]
    yield ", ".join(f"`{switch.parameter}=True`" for switch in asking if switch.parameter)
    yield ", ".join(f"`{switch.flag_name}`" for switch in asking if switch.flag)
    yield ", ".join(f"`{kind.name.lower()}`" for kind in source.kinds)
    yield ", ".join(f"`{table}`" for table in source.tables)
