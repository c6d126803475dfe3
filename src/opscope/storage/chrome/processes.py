"""The processes whose events are in one file, each with its own devices and threads.

torch.profiler writes a file for each process; serving engines and scripts merge several into one,
where their devices, correlation ids and threads have equal numbers.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from opscope.columns.schema import EventKind
from opscope.errors import TraceFormatError
from opscope.storage.chrome.native_columns import CollectedEvents
from opscope.storage.partition import PROCESS, RANK, Partition

_OF_OURS = re.compile(rf"({RANK}|{PROCESS}) (\d+): ")
"""How names of processes begin in a file of a job that opscope wrote (``jobs/merged_trace.py``)."""

_NUMBERED = re.compile(r"(.*?)[\s:/_-]*(\d+)$", re.DOTALL)
_NUMBER = re.compile(r"\d+")
_MOST = 4096  # more groups than that are no processes


def processes_in(collected: CollectedEvents, path: str) -> dict[Partition | None, CollectedEvents]:
    """Its events by process; all of them under None where they are of one."""
    ours = {
        label: Partition(match[1], int(match[2]))
        for label, name in collected.processes.items()
        if (match := _OF_OURS.match(name))
    }
    if len(set(ours.values())) > 1:
        return _of_ours(collected, ours)
    hosts, owners = _hosts(collected), list(collected.owners)
    groups = _groups_by_prefix([*hosts, *owners], hosts, owners)
    if groups is None:
        if len(hosts) > 1:
            _check_launches(collected, hosts, path)
        return {None: collected}
    names = list(dict.fromkeys(groups.values()))
    of_owner = np.array([names.index(groups[owner]) for owner in owners], dtype=np.int64)
    of_work = of_owner[collected.gpu["process"]]
    of_thread = np.array(
        [_group_of(process, groups, names) for process, _ in collected.threads], dtype=np.int64
    )
    return {
        part: collected.of_process(of_thread == row, of_work == row)
        for row, part in enumerate(_parts(names))
    }


def _of_ours(
    collected: CollectedEvents, ours: dict[Any, Partition]
) -> dict[Partition | None, CollectedEvents]:
    """By opscope's names of processes; device work is of the process whose call has its id."""
    parts = list(dict.fromkeys(ours.values()))
    of_thread = np.array(
        [parts.index(ours[process]) if process in ours else 0 for process, _ in collected.threads]
    )
    spans, gpu = collected.spans, collected.gpu
    order = np.argsort(spans["external_id"], kind="stable")
    ids = spans["external_id"][order]
    at = np.minimum(np.searchsorted(ids, gpu["external_id"]), max(len(ids) - 1, 0))
    is_known = ids[at] == gpu["external_id"] if len(ids) else np.zeros(len(at), dtype=np.bool_)
    of_work = np.where(is_known, of_thread[spans["thread"][order[at]]], 0)
    return {
        part: collected.of_process(of_thread == row, of_work == row)
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
    """By label the common prefix of a process; None where labels form no groups."""
    groups = {label: _prefix(label) for label in labels}
    of_hosts, of_devices = ({groups[label] for label in some} for some in (hosts, owners))
    is_several = 1 < len(of_hosts | of_devices) <= _MOST
    has_names = "" not in of_hosts | of_devices
    fits = not hosts or not owners or of_devices <= of_hosts
    return groups if is_several and has_names and fits else None


def _group_of(process: Any, groups: dict[Any, str], names: list[str]) -> int:
    """The group of a process; the first for one without operators and a name without a prefix."""
    group = groups.get(process) or _prefix(process) or str(process)
    return names.index(group) if group in names else 0


def _check_launches(collected: CollectedEvents, hosts: list[Any], path: str) -> None:
    """Check that at most one process has a call with the correlation id of each piece of work."""
    spans, wanted = collected.spans, collected.gpu["correlation_id"]
    host_of_thread = np.array(
        [hosts.index(process) if process in hosts else -1 for process, _ in collected.threads]
    )
    calls = np.flatnonzero(spans["kind"] == EventKind.RUNTIME_CALL)
    host = host_of_thread[spans["thread"][calls]]
    owners = np.zeros(len(wanted), dtype=np.int64)
    for row in range(len(hosts)):
        owners += np.isin(wanted, spans["correlation_id"][calls[host == row]]) & (wanted > 0)
    if (owners > 1).any():
        raise TraceFormatError(
            f"{path} holds {len(hosts)} processes whose launches have the same numbers, so the "
            f"process of {int((owners > 1).sum()):,} device activities is unknown. Load the file "
            "of each process; or give processes and devices of one rank names with the same "
            'prefix, as in "[rank 3] 1234" and "[rank 3] 0".'
        )


def _parts(names: list[str]) -> list[Partition]:
    """Ranks by the number in each name, or else in order."""
    numbers = [_NUMBER.findall(name) for name in names]
    own = [int(found[0]) for found in numbers if len(found) == 1 and len(found[0]) < 6]
    ranks = own if len(set(own)) == len(names) else range(len(names))
    return [Partition(RANK, rank) for rank in ranks]
