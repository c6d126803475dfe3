"""What a Chrome trace says a device did, in a form that two profilers' files can be compared in."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tests.gpu.programs import Program
from torch.profiler import ProfilerActivity

import opscope

_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


@dataclass
class DeviceWork:
    """Of one run of a program.

    Attributes:
        counts: how often each kernel, copy and set ran.
        microseconds: their total times.
        launches: how often which call of the runtime, in which operator, launched which work.
    """

    counts: Counter[str] = field(default_factory=Counter)
    microseconds: Counter[str] = field(default_factory=Counter)
    launches: Counter[tuple[str, str, str]] = field(default_factory=Counter)


def work_under_torch(program: Program) -> DeviceWork:
    """What torch.profiler's file says of a run."""
    return _work(program, torch.profiler.profile)


def work_under_opscope(program: Program) -> DeviceWork:
    """What opscope's file says of a run."""
    return _work(program, opscope.profile)


def _work(program: Program, profile: Callable[..., Any]) -> DeviceWork:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        program()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        prof.export_chrome_trace(f"{folder}/trace.json")
        return read_device_work(f"{folder}/trace.json")


def read_device_work(path: str | Path) -> DeviceWork:
    """What the Chrome trace at ``path`` says."""
    with open(path, encoding="utf-8") as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    calls: dict[int, str] = {}
    operators: dict[int, str] = {}
    for event in events:
        arguments = event.get("args", {})
        if event.get("cat") in ("cuda_runtime", "cuda_driver"):
            calls.setdefault(arguments.get("correlation", -1), event["name"])
        elif event.get("cat") == "cpu_op":
            operators[arguments.get("External id", -1)] = event["name"]
    work = DeviceWork()
    for event in events:
        if event.get("cat") not in _WORK:
            continue
        name, arguments = readable(event["name"]), event["args"]
        work.counts[name] += 1
        work.microseconds[name] += event["dur"]
        call = calls.get(arguments["correlation"], "")
        operator = operators.get(arguments.get("External id", -1), "")
        work.launches[name, call, operator] += 1
    return work


def readable(name: str) -> str:
    """torch.profiler leaves very long names as the compiler made them."""
    return str(torch._C._demangle(name)) if name.startswith("_Z") else name
