"""What a Kineto file says that a job did, read with nothing of opscope's."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

KERNEL, COPY, SET, SYNCHRONISATION = range(4)
_WORK = {"kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": SET, "cuda_sync": SYNCHRONISATION}
_CALLS = {"cuda_runtime": 0, "runtime": 0, "cuda_driver": 1}
_MEMORIES = ("Unknown", "Pageable", "Pinned", "Device", "Array", "Managed")
_COPIES = ("?", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
_SYNCHRONISATIONS = ("?", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
_COPY_NAME = re.compile(r"Memcpy (\w+) \((\w+) -> (\w+)\)")
_SET_NAME = re.compile(r"Memset \((\w+)\)")


@dataclass(frozen=True)
class Span:
    """An operator, annotation or call on a thread; times in nanoseconds of the file."""

    name: str
    kind: str  # "operator", "annotation", "call"
    start_ns: int
    end_ns: int
    external: int = -1
    api: int = 0
    function: int = 0
    correlation: int = -1


@dataclass(frozen=True)
class Work:
    """One activity of a device, with CUPTI's codes."""

    kind: int
    name: str
    start_ns: int
    end_ns: int
    device: int
    context: int
    stream: int
    correlation: int
    external: int
    size_bytes: int = 0
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    registers: int = 0
    shared_memory: int = 0
    copy_kind: int = 0
    source: int = 0
    target: int = 0
    sync_type: int = 0
    event: int = 0
    waits_for: int = -1
    waits_for_stream: int = -1
    graph: int = 0
    graph_node: int = 0


@dataclass
class Job:
    """A file's content, and what had to be invented to make CUPTI's records of it.

    Of every file that is: names of kernels are as in C++ and not mangled, work was queued and
    submitted at times that were not measured, and the versions in the names of calls.

    Attributes:
        threads: spans by thread of the file, in the order in which they begin.
        work: of devices, in the order of the file.
        invented: what the file does not hold, or not as CUPTI would have it, and how often.
    """

    threads: dict[tuple[Any, Any], list[Span]] = field(default_factory=lambda: defaultdict(list))
    work: list[Work] = field(default_factory=list)
    invented: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def read_job(path: Path) -> Job:
    """Read a ``.json`` or ``.json.gz`` file.

    Raises:
        ValueError: it is no such file.
    """
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    content = json.loads(text, parse_float=Decimal)
    events = content["traceEvents"] if isinstance(content, dict) else content
    job = Job()
    for event in events:
        if event.get("ph") == "X":
            _take(job, event, str(event.get("cat", "")).lower())
    for spans in job.threads.values():
        spans.sort(key=lambda span: (span.start_ns, -span.end_ns))
    return job


def _take(job: Job, event: dict[str, Any], category: str) -> None:
    start, end = _times(event)
    arguments = event.get("args") or {}
    external = int(arguments.get("External id", arguments.get("external id", -1)))
    thread = (event.get("pid"), event.get("tid"))
    if category in ("cpu_op", "user_annotation"):
        kind = "operator" if category == "cpu_op" else "annotation"
        job.threads[thread].append(Span(str(event["name"]), kind, start, end, external))
    elif category in _CALLS and "correlation" in arguments:
        function = arguments.get("cbid", arguments.get("cid"))
        job.threads[thread].append(
            Span(
                str(event["name"]), "call", start, end, external, _CALLS[category],
                int(function or 0), int(arguments["correlation"]),
            )
        )  # fmt: skip
    elif category in _WORK and "correlation" in arguments:
        job.work.append(_work(job, _WORK[category], event, arguments, (start, end, external)))


def _times(event: dict[str, Any]) -> tuple[int, int]:
    start = int(Decimal(event["ts"]) * 1000)
    return start, start + int(Decimal(event.get("dur", 0)) * 1000)


def _work(
    job: Job, kind: int, event: dict[str, Any], given: dict[str, Any], when: tuple[int, int, int]
) -> Work:
    name = str(event["name"])
    if kind != SYNCHRONISATION:
        job.invented["shared memory counted as dynamic"] += kind == KERNEL
    if "context" not in given:
        job.invented["context"] += 1
    codes: dict[str, Any] = {}
    if copied := _COPY_NAME.fullmatch(name):
        codes = {
            "copy_kind": _code(_COPIES, copied[1]),
            "source": _code(_MEMORIES, copied[2]),
            "target": _code(_MEMORIES, copied[3]),
        }
    elif filled := _SET_NAME.fullmatch(name):
        codes = {"target": _code(_MEMORIES, filled[1])}
    elif kind == SYNCHRONISATION:
        codes = {
            "sync_type": _code(_SYNCHRONISATIONS, given.get("cuda_sync_kind", name)),
            "event": int(given.get("wait_on_cuda_event_id", 0)),
            "waits_for": int(given.get("wait_on_cuda_event_record_corr_id", -1)),
            "waits_for_stream": int(given.get("wait_on_stream", -1)),
        }
    device = int(given.get("device", 0))
    return Work(
        kind, name, when[0], when[1], device, int(given.get("context", device + 1)),
        _signed(int(given.get("stream", 0))), int(given["correlation"]), when[2],
        size_bytes=int(given.get("bytes", 0)), grid=tuple(given.get("grid", ())),
        block=tuple(given.get("block", ())),
        registers=int(given.get("registers per thread", 0)),
        shared_memory=int(given.get("shared memory", 0)),
        graph=int(given.get("graph id", 0)), graph_node=int(given.get("graph node id", 0)),
        **codes,
    )  # fmt: skip


def _signed(number: int) -> int:
    """Some files have no stream as -1, others as the number that CUPTI has for it."""
    return number - (1 << 32) if number >= 1 << 31 else number


def _code(names: tuple[str, ...], text: str) -> int:
    return names.index(text) if text in names else 0
