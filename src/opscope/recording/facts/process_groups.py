"""Process groups by address, because arguments of collectives contain only an address.

Also samples how many collectives each group has begun. All ranks count alike, so these numbers
identify a collective in recordings that began at different times.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import opscope._native as _native
from opscope.recording.decoded import Decoded
from opscope.recording.facts.process_facts import JOB_KEY, joined_job
from opscope.recording.listeners import Listener

Groups = dict[str, dict[str, Any]]
"""By the address in recorded arguments: ``pg_name``, ``pg_desc``, global ``ranks``, and ``begun``,
pairs of a time (Unix nanoseconds) and the number of collectives begun by then."""

_JOB = "job"
_MOST_MOMENTS = 64  # largest number of moments of a group; those in the middle are dropped


def read_process_groups() -> Groups:
    """Current process groups. Empty without torch.distributed."""
    return {_address(group): _described(group, ranks) for group, ranks in _ranks_of_groups()}


def _ranks_of_groups() -> list[tuple[Any, Mapping[int, int]]]:
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(c10d, "_world", None)
    ranks = getattr(world, "pg_group_ranks", None)
    if c10d is None or not isinstance(ranks, dict):
        return []
    # Groups without this process are objects of another class.
    return [(one, of) for one, of in list(ranks.items()) if isinstance(one, c10d.ProcessGroup)]


def _address(group: Any) -> str:
    """Address of the C++ object: the first word that pybind11 keeps in its wrapper."""
    inside = ctypes.c_void_p.from_address(id(group) + object.__basicsize__)
    return f"{inside.value or 0:#x}"


def _described(group: Any, ranks: Mapping[int, int]) -> dict[str, Any]:
    name = desc = ""
    with suppress(RuntimeError, AttributeError):
        name = str(group.group_name)
        desc = str(group.group_desc)
    begun: list[list[int]] = []
    with suppress(RuntimeError, AttributeError):  # the backend does not count, or has ended
        begun = [[time.time_ns(), int(group._get_sequence_number_for_group())]]
    in_order = sorted(ranks, key=lambda rank: ranks[rank])
    return {"pg_name": name, "pg_desc": desc, "ranks": in_order, "begun": begun}


def _joined(old: Mapping[str, dict[str, Any]], new: Mapping[str, dict[str, Any]]) -> Groups:
    """Groups of both; a group in both has the moments of both."""
    groups: Groups = {**old}
    for address, group in new.items():
        known = groups.get(address)
        if known is not None and known["pg_name"] == group["pg_name"]:
            begun = sorted({tuple(one) for one in (*known["begun"], *group["begun"])})
            half = _MOST_MOMENTS // 2
            few = begun if len(begun) <= _MOST_MOMENTS else [*begun[:half], *begun[-half:]]
            group = {**group, "begun": [list(one) for one in few]}
        groups[address] = group
    return groups


class _WatchedGroups(dict[Any, Any]):
    """torch's dictionary of groups and ranks; reads the groups before and after each change.

    A program destroys its groups before it ends, and their state with them.
    """

    def __setitem__(self, group: Any, ranks: Any) -> None:
        super().__setitem__(group, ranks)
        _note_all()

    def __delitem__(self, group: Any) -> None:
        _note_all()
        super().__delitem__(group)

    def pop(self, *arguments: Any) -> Any:
        _note_all()
        return super().pop(*arguments)

    def clear(self) -> None:
        _note_all()
        super().clear()


_open: list[ProcessGroups] = []  # listeners of open windows

# A forked child has none of its parent's windows.
os.register_at_fork(after_in_child=_open.clear)


def _note_all() -> None:
    for listener in list(_open):
        with suppress(Exception):  # the program is changing its groups and must not fail
            listener.note()


def _watch() -> None:
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if type(getattr(c10d, "_pg_group_ranks", None)) is dict:
        c10d._pg_group_ranks = _WatchedGroups(c10d._pg_group_ranks)  # type: ignore[union-attr]


class ProcessGroups(Listener):
    """Process groups that existed while a window was open."""

    def __init__(self) -> None:
        self._known: Groups = {}

    def begin(self) -> None:
        """Read the current groups, and from now on each change."""
        _watch()
        if self not in _open:
            _open.append(self)
        self.note()

    def note(self) -> None:
        """Read the current groups, and write them to the stream in case recording is cut off."""
        now = read_process_groups()
        if now:
            self._known = _joined(self._known, now)
            known = {type(self).__name__: self._known, _JOB: joined_job()}
            _native.note_in_stream(json.dumps(known))

    def before_end(self) -> None:
        """Read the groups once more."""
        if self in _open:
            self.note()

    def end(self) -> None:
        """Stop reading changes."""
        if self in _open:
            _open.remove(self)

    def added_to(self, decoded: Decoded) -> Decoded:
        """Set ``process_groups``."""
        return replace(decoded, process_groups=self._known)


def with_job_from_notes(
    process: Mapping[str, Any], notes: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Facts of a process, with the job that it joined after its recording began."""
    jobs = [note[_JOB] for note in notes if note.get(_JOB)]
    return {**process, **({JOB_KEY: jobs[-1]} if jobs else {})}
