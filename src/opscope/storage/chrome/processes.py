"""The processes in one file, each with its devices and threads.

torch.profiler writes a file per process. Serving engines and scripts merge several files, in which
devices, correlation ids and threads then have equal numbers.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from opscope.columns.schema import EventKind
from opscope.errors import TraceFormatError
from opscope.storage.chrome.native_columns import CollectedEvents
from opscope.storage.partition import PROCESS, RANK, Partition

_PROCESS_NAME = re.compile(rf"({RANK}|{PROCESS}) (\d+): ")
"""Begin of process names in a file of a job that opscope wrote (``jobs/merged_trace.py``)."""

_NUMBERED = re.compile(r"(.*?)[\s:/_-]*(\d+)$", re.DOTALL)
_NUMBER = re.compile(r"\d+")
_MAX_GROUPS = 4096  # more groups are not processes


def processes_in(collected: CollectedEvents, path: str) -> dict[Partition | None, CollectedEvents]:
    """Events by process; under None if they are of one."""
    named = {
        label: Partition(match[1], int(match[2]))
        for label, name in collected.processes.items()
        if (match := _PROCESS_NAME.match(name))
    }
    if len(set(named.values())) > 1:
        return _by_process_name(collected, named)
    hosts, owners = _hosts(collected), list(collected.owners)
    groups = _groups_by_prefix([*hosts, *owners], hosts, owners)
    if groups is None:
        if len(hosts) > 1:
            _check_launches(collected, hosts, path)
        return {None: collected}
    names = list(dict.fromkeys(groups.values()))
    group_of_owner = np.array([names.index(groups[owner]) for owner in owners], dtype=np.int64)
    group_of_work = group_of_owner[collected.gpu["process"]]
    group_of_thread = np.array(
        [_group_of(process, groups, names) for process, _ in collected.threads], dtype=np.int64
    )
    return {
        part: collected.of_process(group_of_thread == row, group_of_work == row)
        for row, part in enumerate(_partitions(names))
    }


def _by_process_name(
    collected: CollectedEvents, named: dict[Any, Partition]
) -> dict[Partition | None, CollectedEvents]:
    """Events by opscope's process names; device work is in the process of the call with its id."""
    parts = list(dict.fromkeys(named.values()))
    part_of_thread = np.array(
        [parts.index(named[process]) if process in named else 0 for process, _ in collected.threads]
    )
    spans, gpu = collected.spans, collected.gpu
    order = np.argsort(spans["external_id"], kind="stable")
    ids = spans["external_id"][order]
    at = np.minimum(np.searchsorted(ids, gpu["external_id"]), max(len(ids) - 1, 0))
    is_known = ids[at] == gpu["external_id"] if len(ids) else np.zeros(len(at), dtype=np.bool_)
    part_of_work = np.where(is_known, part_of_thread[spans["thread"][order[at]]], 0)
    return {
        part: collected.of_process(part_of_thread == row, part_of_work == row)
        for row, part in enumerate(parts)
    }


def _hosts(collected: CollectedEvents) -> list[Any]:
    kind = collected.spans["kind"]
    of_torch = (kind == EventKind.OPERATOR) | (kind == EventKind.RUNTIME_CALL)
    threads = np.unique(collected.spans["thread"][of_torch]).tolist()
    return list(dict.fromkeys(collected.threads[thread][0] for thread in threads))


def _prefix(label: Any) -> str:
    """``[TP00]`` of ``[TP00] 40``; empty for a number."""
    match = _NUMBERED.match(label) if isinstance(label, str) else None
    return match[1] if match else ""


def _groups_by_prefix(
    labels: list[Any], hosts: list[Any], owners: list[Any]
) -> dict[Any, str] | None:
    """Process name prefix by label; None if labels form no groups."""
    groups = {label: _prefix(label) for label in labels}
    of_hosts, of_devices = ({groups[label] for label in side} for side in (hosts, owners))
    is_several = 1 < len(of_hosts | of_devices) <= _MAX_GROUPS
    has_names = "" not in of_hosts | of_devices
    fits = not hosts or not owners or of_devices <= of_hosts
    return groups if is_several and has_names and fits else None


def _group_of(process: Any, groups: dict[Any, str], names: list[str]) -> int:
    """The group of a process; the first group if it has no operators and no prefix."""
    group = groups.get(process) or _prefix(process) or str(process)
    return names.index(group) if group in names else 0


def _check_launches(collected: CollectedEvents, hosts: list[Any], path: str) -> None:
    """Raise TraceFormatError if calls of several processes have the id of one activity."""
    spans, ids = collected.spans, collected.gpu["correlation_id"]
    host_of_thread = np.array(
        [hosts.index(process) if process in hosts else -1 for process, _ in collected.threads]
    )
    calls = np.flatnonzero(spans["kind"] == EventKind.RUNTIME_CALL)
    host = host_of_thread[spans["thread"][calls]]
    owners = np.zeros(len(ids), dtype=np.int64)
    for row in range(len(hosts)):
        owners += np.isin(ids, spans["correlation_id"][calls[host == row]]) & (ids > 0)
    if (owners > 1).any():
        raise TraceFormatError(
            f"{path} holds {len(hosts)} processes whose launches have the same numbers, so the "
            f"process of {int((owners > 1).sum()):,} device activities is unknown. Load the file "
            "of each process; or give processes and devices of one rank names with the same "
            'prefix, as in "[rank 3] 1234" and "[rank 3] 0".'
        )


def _partitions(names: list[str]) -> list[Partition]:
    """Ranks by the number in each name, else in order."""
    numbers = [_NUMBER.findall(name) for name in names]
    rank_numbers = [int(digits[0]) for digits in numbers if len(digits) == 1 and len(digits[0]) < 6]
    ranks = rank_numbers if len(set(rank_numbers)) == len(names) else range(len(names))
    return [Partition(RANK, rank) for rank in ranks]
