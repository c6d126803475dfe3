"""Identifies process groups, as arguments of collectives contain only an address.

How many collectives each group had begun at some moments is kept too: ranks count alike, so that
the same collective is found in the recordings of all of them, whenever each of those began.
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

from opscope import _native
from opscope.recording.decoded import Decoded
from opscope.recording.facts.process_facts import JOB_KEY, joined_job
from opscope.recording.listeners import Listener

Groups = dict[str, dict[str, Any]]
"""By the address that recorded arguments show: ``pg_name``, ``pg_desc``, ``ranks`` (global ones),
``begun``, pairs of a moment in Unix nanoseconds and how many collectives had begun by then."""

_NOTE, _JOB = "process groups", "job"
_MOST_MOMENTS = 64
"""Of one group; between the first and the last, those in the middle go."""


def read_process_groups() -> Groups:
    """The process groups there are now. Empty without torch.distributed."""
    return {_address(group): _described(group, ranks) for group, ranks in _ranks_of_groups()}


def _ranks_of_groups() -> list[tuple[Any, Mapping[int, int]]]:
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(c10d, "_world", None)
    ranks = getattr(world, "pg_group_ranks", None)
    if c10d is None or not isinstance(ranks, dict):
        return []
    # A group that this process is no member of is there as some other object.
    return [(one, of) for one, of in list(ranks.items()) if isinstance(one, c10d.ProcessGroup)]


def _address(group: Any) -> str:
    """Of the C++ object: the first thing that pybind11 keeps in what it wraps it in."""
    inside = ctypes.c_void_p.from_address(id(group) + object.__basicsize__)
    return f"{inside.value or 0:#x}"


def _described(group: Any, ranks: Mapping[int, int]) -> dict[str, Any]:
    name = desc = ""
    with suppress(RuntimeError, AttributeError):
        name = str(group.group_name)
        desc = str(group.group_desc)
    begun: list[list[int]] = []
    with suppress(RuntimeError, AttributeError):  # a backend that does not count, or that has ended
        begun = [[time.time_ns(), int(group._get_sequence_number_for_group())]]
    in_order = sorted(ranks, key=lambda rank: ranks[rank])
    return {"pg_name": name, "pg_desc": desc, "ranks": in_order, "begun": begun}


def _joined(old: Mapping[str, dict[str, Any]], new: Mapping[str, dict[str, Any]]) -> Groups:
    """Both; of a group in both, the moments of both."""
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
    """torch's own dictionary of groups and their ranks, which says when groups come and go.

    A program takes its groups down before it ends, and with that all that is known of them.
    """

    def __setitem__(self, group: Any, ranks: Any) -> None:
        super().__setitem__(group, ranks)
        _note_all()

    def __delitem__(self, group: Any) -> None:
        _note_all()
        super().__delitem__(group)

    def pop(self, *arguments: Any) -> Any:
        """As of a dictionary."""
        _note_all()
        return super().pop(*arguments)

    def clear(self) -> None:
        """As of a dictionary."""
        _note_all()
        super().clear()


_open: list[ProcessGroups] = []
"""Listeners of windows that are open."""

# A child has none of its parent's windows.
os.register_at_fork(after_in_child=_open.clear)


def _note_all() -> None:
    for listener in list(_open):
        with suppress(Exception):  # the program is changing its groups: never its trouble
            listener.note()


def _watch() -> None:
    """Put a watched dictionary in the place of torch's, once."""
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if type(getattr(c10d, "_pg_group_ranks", None)) is dict:
        c10d._pg_group_ranks = _WatchedGroups(c10d._pg_group_ranks)  # type: ignore[union-attr]


class ProcessGroups(Listener):
    """The process groups that there were while a window was open."""

    def __init__(self) -> None:
        self._known: Groups = {}

    def begin(self) -> None:
        """Note those that there are, and from now on those that come and go."""
        _watch()
        if self not in _open:
            _open.append(self)
        self.note()

    def note(self) -> None:
        """Store the current process groups, also for a recording that may not be finished."""
        now = read_process_groups()
        if now:
            self._known = _joined(self._known, now)
            _native.note_in_stream(json.dumps({_NOTE: self._known, _JOB: joined_job()}))

    def before_end(self) -> None:
        """Note them once more."""
        if self in _open:
            self.note()

    def end(self) -> None:
        """Groups that come and go are none of this window's any more."""
        if self in _open:
            _open.remove(self)

    def added_to(self, decoded: Decoded) -> Decoded:
        """As ``process_groups``."""
        return with_groups(decoded, self._known)


def groups_from_notes(notes: Iterable[str]) -> Groups:
    """What was noted in a stream last."""
    groups: Groups = {}
    for note in notes:
        groups = json.loads(note).get(_NOTE, groups)
    return groups


def with_job_from_notes(process: Mapping[str, Any], notes: Iterable[str]) -> dict[str, Any]:
    """Facts of a process with the job that it joined once its recording had begun."""
    job: dict[str, Any] = {}
    for note in notes:
        job = json.loads(note).get(_JOB) or job
    return {**process, **({JOB_KEY: job} if job else {})}


def with_groups(decoded: Decoded, groups: Mapping[str, Any]) -> Decoded:
    """With these besides those it has."""
    return replace(decoded, process_groups=_joined(decoded.process_groups, groups))
