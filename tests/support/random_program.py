"""Traces of programs that no one would write: spans nest, overlap, share moments and numbers."""

from __future__ import annotations

import numpy as np

from opscope.api.trace import Trace
from opscope.columns.codes import AllocationAction, LinkKind, WaitsFor
from opscope.columns.names import Names
from opscope.columns.schema import EventKind, RecordScope

TEXTS = [
    "ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#x", "aten::sum", "aten::mm", "aten::is_leaf",
    "autograd::engine::evaluate_function: MmBackward0", "MmBackward0",
    "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad",
    "Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad", "c10d::allreduce_",
    "gloo:all_reduce", "enumerate(DataLoader)#_Iter.__next__", "<built-in method sleep of x>",
    "<frozen importlib._bootstrap>(1): load", "_compile.compile_inner", "mine", "Linear_0",
    "Linear_1", "train.py", "/usr/lib/python3/site-packages/torch/nn/modules/linear.py", "forward",
    "blocks.0", "train",
]  # fmt: skip
KINDS = [
    EventKind.OPERATOR, EventKind.OPERATOR, EventKind.OPERATOR, EventKind.ANNOTATION,
    EventKind.PYTHON_CALL, EventKind.C_CALL, EventKind.MODULE_CALL, EventKind.OPTIMIZER_CALL,
    EventKind.GC_PAUSE, EventKind.RUNTIME_CALL,
]  # fmt: skip


def random_program(
    seed: int,
    events: int,
    with_steps: bool = True,
    in_order: bool = True,
    sampled: bool = True,
    unit_ns: int = 1000,
) -> Trace:
    """A trace of so many events.

    Args:
        seed: of all that is drawn.
        events: how many.
        with_steps: whether the program marks steps.
        in_order: whether parents stand before what runs in them, as in all that is recorded.
        sampled: whether the kernel was asked about its threads.
        unit_ns: of all times: small ones make spans that share moments.
    """
    random = np.random.default_rng(seed)
    threads = int(random.integers(1, 4))
    start = np.sort(random.integers(0, max(events, 1) * 4, events)) * unit_ns
    took = (random.integers(0, 4, events) ** random.integers(0, 6, events)) * unit_ns
    took[random.random(events) < 0.1] = 0
    allowed = np.arange(len(TEXTS))[(0 if with_steps else 3) : 20]
    name = random.choice(allowed, events).astype(np.int32)
    kind = random.choice(KINDS, events).astype(np.uint8)
    kind[name <= 2] = EventKind.ANNOTATION
    scope = random.choice([0, 0, RecordScope.BACKWARD_FUNCTION, RecordScope.USER_SCOPE], events)
    parent = np.where(
        random.random(events) < 0.2, -1, np.arange(events) - random.integers(1, 6, events)
    )
    parent = np.maximum(parent, -1)
    if not in_order and events > 1:
        parent[:-1] = np.where(random.random(events - 1) < 0.3, np.arange(1, events), parent[:-1])
        parent[1:][parent[:-1] == np.arange(1, events)] = -1
        parent = _without_cycles(parent)
    tables = {
        "events": {
            "thread": random.integers(0, threads, events).astype(np.int32),
            "parent": parent.astype(np.int32),
            "name": name,
            "kind": kind,
            "scope": scope.astype(np.uint8),
            "start_ns": start + 10**18,
            "duration_ns": took,
            "sequence_number": random.integers(-2, max(events // 4, 2), events).clip(-1),
            "forward_thread": (random.integers(0, threads + 1, events)
                               * (random.random(events) < 0.5)).astype(np.int32),
            "is_async": random.random(events) < 0.05,
            "unfinished": random.random(events) < 0.05,
        },
        "threads": {
            "system_thread_id": np.arange(threads) + 7,
            "torch_thread_id": np.arange(threads) + 1,
            "name": np.full(threads, -1, dtype=np.int32),
        },
        "frames": {
            "file": np.array([20, 21, 20], dtype=np.int32),
            "function": np.array([24, 22, 22], dtype=np.int32),
            "line": np.array([10, 5, 30], dtype=np.int32),
        },
        "modules": {
            "address": np.array([1, 2], dtype=np.uint64),
            "class_name": np.array([17, 17], dtype=np.int32),
            "name": np.array([18, 19], dtype=np.int32),
            "path": np.array([23, -1], dtype=np.int32),
        },
        "ledger": {"source": ["recorder"], "what": ["cost_ns of one operator"], "value": [1_234.0]},
        **_calls(random, kind),
    }  # fmt: skip
    if events and random.random() < 0.3:
        first, second = np.sort(random.integers(0, events, (2, 5)), axis=0)
        tables["links"] = {
            "kind": np.full(5, LinkKind.FORWARD_BACKWARD, dtype=np.uint8),
            "source": first.astype(np.int32),
            "target": second.astype(np.int32),
        }
    if sampled:
        tables["thread_samples"] = _samples(random, threads, max(events, 1) * 5 * unit_ns)
    rows = events // 3
    tables["allocations"] = {
        "event": random.integers(-1, max(events, 1), rows).astype(np.int32),
        "thread": np.zeros(rows, dtype=np.int32),
        "action": random.choice([AllocationAction.ALLOCATE, AllocationAction.FREE], rows),
        "time_ns": np.sort(random.integers(0, max(events, 1) * 4, rows)) + 10**18,
        "address": random.integers(1, 9, rows).astype(np.uint64),
        "size_bytes": random.integers(1, 99, rows),
        "device_type": np.zeros(rows, dtype=np.int8),
    }
    return Trace(tables, Names.from_strings(TEXTS), {"options": {"memory": True}})


def _without_cycles(parent):
    """Cuts every chain that leads to where it began."""
    for row in range(len(parent)):
        seen, at = {row}, int(parent[row])
        while at >= 0 and at not in seen:
            seen.add(at)
            at = int(parent[at])
        if at >= 0:
            parent[row] = -1
    return parent


def _calls(random, kind):
    """Lines of calls, of some of those that can have any."""
    found = {}
    python = (EventKind.PYTHON_CALL, EventKind.MODULE_CALL)
    for table, chosen in (
        ("python_calls", np.isin(kind, python)),
        ("operator_calls", kind == EventKind.OPERATOR),
    ):
        rows = np.flatnonzero(chosen & (random.random(len(kind)) < 0.7))
        found[table] = {
            "event": rows.astype(np.int32),
            "caller": random.integers(-1, 3, len(rows)).astype(np.int32),
            "caller_line": random.integers(-1, 40, len(rows)).astype(np.int32),
        }
        if table == "python_calls":
            found[table]["frame"] = random.integers(-1, 3, len(rows)).astype(np.int32)
    return found


def _samples(random, threads, until_ns):
    """What the kernel counted, mostly sensible."""
    columns = {name: [] for name in ("thread", "time", "computed", "delayed", "faults", "waits")}
    for thread in range(threads):
        count = int(random.integers(1, 12))
        time = np.sort(random.integers(0, until_ns, count))
        step = np.diff(time, prepend=time[0])
        shares = random.dirichlet([1, 1, 1], count)
        columns["thread"] += [thread + 7] * count
        columns["time"] += (time + 10**18).tolist()
        columns["computed"] += np.cumsum(step * shares[:, 0]).astype(np.int64).tolist()
        columns["delayed"] += np.cumsum(step * shares[:, 1]).astype(np.int64).tolist()
        columns["faults"] += np.cumsum(random.integers(0, 9, count)).tolist()
        columns["waits"] += random.integers(0, len(WaitsFor), count).tolist()
    return {
        "system_thread_id": np.array(columns["thread"]),
        "time_ns": np.array(columns["time"]),
        "computed_ns": np.array(columns["computed"]),
        "delayed_ns": np.array(columns["delayed"]),
        "faults": np.array(columns["faults"]),
        "waits_for": np.array(columns["waits"], dtype=np.uint8),
    }
