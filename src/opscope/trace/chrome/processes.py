"""The processes whose events are in one file, each with its own devices and threads.

torch.profiler writes a file for each process; serving engines and scripts merge several into one,
where their devices, correlation ids and threads have equal numbers.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.errors import TraceFormatError
from opscope.trace.chrome.collected import CollectedEvents
from opscope.trace.partition import PROCESS, RANK, Partition
from opscope.trace.schema import EventKind

_NUMBERED = re.compile(r"(.*?)[\s:/_-]*(\d+)$", re.DOTALL)
_NUMBER = re.compile(r"\d+")
_MOST = 4096
"""More groups than that are no processes."""


def processes_in(collected: CollectedEvents, path: str) -> dict[Partition | None, CollectedEvents]:
    """Its events by process; all of them under None where they are of one.

    Raises:
        TraceFormatError: it is not known of which process some of the device work is.
    """
    hosts = _hosts(collected)
    owners = list(collected.owners)
    groups = _groups_by_prefix([*hosts, *owners], hosts, owners)
    if groups is None and len(hosts) < 2:
        return {None: collected}
    if groups is None:
        names = [str(host) for host in hosts]
        of_work = _launching_hosts(collected, hosts, path)
        group_of = {host: row for row, host in enumerate(hosts)}
    else:
        names = list(dict.fromkeys(groups.values()))
        of_work = np.array([names.index(groups[one]) for one in owners], dtype=np.int64)[
            collected.gpu["process"]
        ]
        group_of = {label: names.index(group) for label, group in groups.items()}
    of_thread = [
        group_of.get(process, _group_named(names, process)) for process, _ in collected.threads
    ]
    parts = _parts(names, hosts if groups is None else [])
    return {
        part: collected.of_process(np.array(of_thread, dtype=np.int64) == row, of_work == row)
        for row, part in enumerate(parts)
    }


def _hosts(collected: CollectedEvents) -> list[Any]:
    """The processes that called operators or a device's runtime, in the file's order."""
    kind = collected.spans["kind"]
    of_torch = (kind == EventKind.OPERATOR) | (kind == EventKind.RUNTIME_CALL)
    threads = np.unique(collected.spans["thread"][of_torch]).tolist()
    return list(dict.fromkeys(collected.threads[thread][0] for thread in threads))


def _prefix(label: Any) -> str:
    """What precedes the number of a process: ``[TP00]`` of ``[TP00] 40``; empty for a number."""
    match = _NUMBERED.match(label) if isinstance(label, str) else None
    return match[1] if match else ""


def _groups_by_prefix(
    labels: list[Any], hosts: list[Any], owners: list[Any]
) -> dict[Any, str] | None:
    """By label, the text that all of one process begin with; None where they are no groups."""
    groups = {label: _prefix(label) for label in labels}
    of_hosts, of_devices = ({groups[label] for label in some} for some in (hosts, owners))
    is_several = 1 < len(of_hosts | of_devices) <= _MOST
    has_names = "" not in of_hosts | of_devices
    fits = not hosts or not owners or of_devices <= of_hosts
    return groups if is_several and has_names and fits else None


def _group_named(names: list[str], process: Any) -> int:
    """Of a process without operators; the first where its name says nothing."""
    prefix = _prefix(process) or str(process)
    return names.index(prefix) if prefix in names else 0


def _launching_hosts(
    collected: CollectedEvents, hosts: list[Any], path: str
) -> npt.NDArray[np.int64]:
    """For each device activity the one process that has a call with its correlation id."""
    spans, wanted = collected.spans, collected.gpu["correlation_id"]
    host_of_thread = np.array(
        [hosts.index(process) if process in hosts else -1 for process, _ in collected.threads]
    )
    calls = np.flatnonzero(spans["kind"] == EventKind.RUNTIME_CALL)
    host = host_of_thread[spans["thread"][calls]]
    found = np.full(len(wanted), -1, dtype=np.int64)
    several = np.zeros(len(wanted), dtype=np.bool_)
    for row in range(len(hosts)):
        is_own = np.isin(wanted, spans["correlation_id"][calls[host == row]]) & (wanted > 0)
        several |= is_own & (found >= 0)
        found[is_own] = row
    if several.any():
        raise TraceFormatError(
            f"{path} holds {len(hosts)} processes whose launches have the same numbers, so that it "
            f"is not known of which process {int(several.sum()):,} pieces of device work are. Give "
            'processes and devices of one rank a name that begins alike, as in "[rank 3] 1234" and '
            '"[rank 3] 0", or load the file of each process.'
        )
    return np.maximum(found, 0)


def _parts(names: list[str], hosts: list[Any]) -> list[Partition]:
    """By the number that each name has, or else their order; numbers alone are ids of processes."""
    if hosts and all(type(host) is int and 0 <= host < 10**9 for host in hosts):
        return [Partition(PROCESS, host) for host in hosts]
    numbers = [_NUMBER.findall(name) for name in names]
    own = [int(found[0]) for found in numbers if len(found) == 1 and len(found[0]) < 6]
    ranks = own if len(set(own)) == len(names) else range(len(names))
    return [Partition(RANK, rank) for rank in ranks]
