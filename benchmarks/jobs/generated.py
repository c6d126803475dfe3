"""Jobs that no program ran: traces of many ranks, of which is known what their time went to.

A rank repeats one step: a network whose layers are modules, backward, an optimizer, a loader, a
collection now and then, and a collective in which the ranks wait for the slowest. What everything
takes is drawn from the seed, so that the truth about any rank is known without its trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.api.trace import Trace
from opscope.columns.causes import Cause
from opscope.columns.codes import AllocationAction, EventKind, RecordScope
from opscope.columns.names import Names

Values = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

ORIGIN_NS = 1_700_000_000_000_000_000
FILE = "train.py"
DISPATCH_NS = 2_000
"""What the quickest operator takes, so that it is what calling any takes."""
COMMUNICATION_NS = 200_000
"""Duration of the collective without waits."""
SCATTER = 0.02
"""Of a step, from one to the next."""
BLOCK_BYTES = 1 << 20

WAIT, OPERATORS, PYTHON, LOADING, COLLECTING, VIEWS = range(6)
"""What a stretch of time is, and so what scales it."""


@dataclass
class Node:
    """A span of a step; times are those of its own stretches, in order of the template."""

    name: str
    kind: EventKind
    scope: RecordScope = RecordScope.FUNCTION
    frame: int = -1
    caller: int = -1
    line: int = -1
    module: int = -1
    sequence: int = -1
    is_backward: bool = False
    parent: int = -1
    first: int = 0
    last: int = 0
    allocates: int = 0


@dataclass
class Template:
    """One step: spans in order of start, and stretches of time between starts and ends."""

    layers: int
    nodes: list[Node] = field(default_factory=list)
    stretch_ns: list[int] = field(default_factory=list)
    stretch_is: list[int] = field(default_factory=list)
    _open: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._step()

    def spend(self, time_ns: int, kind: int) -> None:
        """A stretch of time of whatever is open."""
        self.stretch_ns.append(time_ns)
        self.stretch_is.append(kind)

    def begin(self, name: str, kind: EventKind, **more: Any) -> None:
        """A span begins."""
        parent = self._open[-1] if self._open else -1
        self.nodes.append(Node(name, kind, parent=parent, first=len(self.stretch_ns), **more))
        self._open.append(len(self.nodes) - 1)

    def annotate(self, name: str) -> None:
        """A ``record_function`` begins."""
        self.begin(name, EventKind.ANNOTATION, scope=RecordScope.USER_SCOPE)

    def end(self) -> None:
        """The innermost span ends."""
        self.nodes[self._open.pop()].last = len(self.stretch_ns)

    def leaf(self, name: str, time_ns: int, is_what: int = OPERATORS, **more: Any) -> None:
        """An operator that calls none."""
        self.begin(name, EventKind.OPERATOR, **more)
        self.spend(time_ns, is_what)
        self.end()

    def _step(self) -> None:
        self.annotate("ProfilerStep#")
        self.begin(f"{FILE}(10): train_step", EventKind.PYTHON_CALL, frame=0)
        self.spend(4_000, PYTHON)
        self.annotate("enumerate(DataLoader)#_Iter.__next__")
        self.spend(150_000, LOADING)
        self.end()
        self.spend(30_000, PYTHON)
        self.begin("gc", EventKind.GC_PAUSE)
        self.spend(60_000, COLLECTING)
        self.end()
        self._network()
        self.spend(6_000, PYTHON)
        self._backward()
        self.spend(3_000, PYTHON)
        self.leaf("c10d::allreduce_", 0, WAIT, caller=0, line=22)
        self.spend(3_000, PYTHON)
        self._optimizer()
        self.spend(2_000, PYTHON)
        self.end()
        self.end()

    def _network(self) -> None:
        self.begin("nn.Module: Net_0", EventKind.MODULE_CALL, module=0, caller=0, line=15, frame=1)
        for layer in range(self.layers):
            self.spend(1_500, PYTHON)
            self.begin(
                f"nn.Module: Linear_{layer}",
                EventKind.MODULE_CALL,
                module=1 + layer,
                caller=1,
                line=32,
                frame=2,
            )
            self.spend(1_000, PYTHON)
            self.begin("aten::linear", EventKind.OPERATOR, caller=2, line=40)
            self.leaf("aten::t", DISPATCH_NS, VIEWS)
            self.leaf("aten::addmm", 22_000, sequence=layer, allocates=1)
            self.end()
            self.spend(1_000, PYTHON)
            self.end()
            self.leaf("aten::relu", 6_000, caller=1, line=33, sequence=self.layers + layer)
        self.spend(1_000, PYTHON)
        self.end()

    def _backward(self) -> None:
        self.begin("run_backward", EventKind.PYTHON_CALL, frame=3, caller=0, line=20)
        self.spend(5_000, PYTHON)
        for layer in reversed(range(self.layers)):
            engine = "autograd::engine::evaluate_function: "
            node = {
                "scope": RecordScope.BACKWARD_FUNCTION,
                "is_backward": True,
                "sequence": self.layers + layer,
            }
            self.begin(f"{engine}ReluBackward0", EventKind.OPERATOR, **node)
            self.leaf("aten::threshold_backward", 5_000)
            self.end()
            node["sequence"] = layer
            self.begin(f"{engine}AddmmBackward0", EventKind.OPERATOR, **node)
            self.begin("AddmmBackward0", EventKind.OPERATOR, **node)
            self.leaf("aten::t", DISPATCH_NS, VIEWS)
            self.leaf("aten::mm", 40_000, allocates=-1)
            self.end()
            self.end()
        self.end()

    def _optimizer(self) -> None:
        self.annotate("Optimizer.step#SGD.step")
        for _ in range(self.layers):
            self.leaf("aten::add_", 4_000, caller=0, line=24)
        self.end()


@dataclass(frozen=True)
class GeneratedJob:
    """A job of ranks that are alike but for what is planted in some.

    Attributes:
        ranks: how many.
        steps: of each.
        layers: of the network; a step has 11 events for each, and 9 more.
        seed: of what is drawn.
    """

    ranks: int
    steps: int
    layers: int = 40
    seed: int = 0

    @cached_property
    def template(self) -> Template:
        """What every step repeats."""
        return Template(self.layers)

    @property
    def slow_rank(self) -> int:
        """Its operators take longer by a third."""
        return self.ranks // 3

    @property
    def loading_rank(self) -> int:
        """Its loader takes thrice as long."""
        return self.ranks // 2

    @property
    def fullest_rank(self) -> int:
        """Its blocks of memory are twice as large."""
        return self.ranks - 1

    def factors(self, rank: int) -> Amounts:
        """How much longer than the template each kind of stretch takes. Shape (kinds,)."""
        drawn = np.random.default_rng((self.seed, rank)).normal(1, 0.01, 6)
        drawn[[WAIT, VIEWS]] = 0, 1
        if rank == self.slow_rank:
            drawn[OPERATORS] *= 4 / 3
        if rank == self.loading_rank:
            drawn[LOADING] *= 3
        return drawn

    def scatter(self, rank: int) -> Amounts:
        """How much longer than the others each step takes. Shape (steps,)."""
        drawn = np.random.default_rng((self.seed, rank, 1)).normal(1, SCATTER, self.steps)
        return np.clip(drawn, 0.8, 1.2)

    @cached_property
    def _by_kind(self) -> Values:
        """What the stretches of a step take, by kind. Shape (kinds,)."""
        sums = np.bincount(self.template.stretch_is, weights=self.template.stretch_ns, minlength=6)
        return sums.astype(np.int64)

    @cached_property
    def _slowest_ns(self) -> Amounts:
        """What the slowest rank takes without others. Shape (steps,)."""
        slowest = np.zeros(self.steps)
        for rank in range(self.ranks):
            slowest = np.maximum(slowest, self.own_ns(rank))
        return slowest

    def own_ns(self, rank: int) -> Amounts:
        """What each step of a rank takes without others, nanoseconds. Shape (steps,)."""
        factors, base = self.factors(rank), self._by_kind
        varying = float((factors * base).sum() - base[VIEWS])
        return varying * self.scatter(rank) + base[VIEWS]

    def _waits_ns(self, rank: int) -> Amounts:
        return self._slowest_ns - self.own_ns(rank) + COMMUNICATION_NS

    def truth(self, rank: int) -> Amounts:
        """What the steps of a rank went to. Shape (causes,), nanoseconds."""
        template, found = self.template, np.zeros(len(Cause))
        times = self.factors(rank) * self._by_kind * self.scatter(rank).sum()
        leaves = {node.parent for node in template.nodes}
        quick = sum(
            node.kind == EventKind.OPERATOR and place not in leaves and "c10d" not in node.name
            for place, node in enumerate(template.nodes)
        )
        found[Cause.DISPATCH] = quick * DISPATCH_NS * self.steps
        views = float(self._by_kind[VIEWS]) * self.steps
        found[Cause.OPERATOR] = times[OPERATORS] + views - found[Cause.DISPATCH]
        found[Cause.PYTHON] = times[PYTHON]
        found[Cause.LOADER] = times[LOADING]
        found[Cause.COLLECTION] = times[COLLECTING]
        found[Cause.COLLECTIVE] = self._waits_ns(rank).sum()
        return found

    def operator_truth(self, rank: int, name: str) -> tuple[int, float]:
        """How often an operator without others in it was called, and what its calls took in all,
        nanoseconds."""
        template, factors = self.template, self.factors(rank)
        own = [node for node in template.nodes if node.name == name]
        total = 0.0
        for node in own:
            kind = template.stretch_is[node.first]
            scale = self.steps if kind == VIEWS else float(self.scatter(rank).sum())
            total += template.stretch_ns[node.first] * float(factors[kind]) * scale
        return len(own) * self.steps, total

    def block_bytes(self, rank: int) -> int:
        """Size of what every layer allocates."""
        return BLOCK_BYTES * (2 if rank == self.fullest_rank else 1)

    def peak_bytes(self, rank: int) -> int:
        """In use when all layers have run."""
        return self.layers * self.block_bytes(rank)

    def trace(self, rank: int) -> Trace:
        """What was recorded of one rank."""
        return _RankOfJob(self, rank).trace()

    def durations(self, rank: int) -> Values:
        """Of every stretch of every step, shape (steps, stretches), nanoseconds."""
        kinds = np.array(self.template.stretch_is)
        base = np.array(self.template.stretch_ns) * self.factors(rank)[kinds]
        took = base[None, :] * np.where(kinds == VIEWS, 1.0, self.scatter(rank)[:, None])
        took[:, kinds == WAIT] = self._waits_ns(rank)[:, None]
        return np.rint(took).astype(np.int64)


class _RankOfJob:
    """Makes the tables of one rank."""

    def __init__(self, job: GeneratedJob, rank: int) -> None:
        self._job, self._rank = job, rank
        took = job.durations(rank)
        until = np.zeros((job.steps, took.shape[1] + 1), dtype=np.int64)
        np.cumsum(took, axis=1, out=until[:, 1:])
        begins = np.concatenate([[0], np.cumsum(until[:-1, -1])])
        self._until = until + begins[:, None] + ORIGIN_NS
        self._texts: dict[str, int] = {}

    def trace(self) -> Trace:
        job, nodes = self._job, self._job.template.nodes
        first, last = self._of_nodes("first"), self._of_nodes("last")
        count, steps = len(nodes), job.steps
        row = np.arange(count * steps).reshape(steps, count)
        start = self._until[:, first]
        parent, sequence = self._of_nodes("parent"), self._of_nodes("sequence")
        base = (np.arange(steps) * count)[:, None]
        # Numbers of autograd nodes differ from step to step.
        shift = (np.arange(steps) * 2 * job.layers)[:, None]
        name = np.array([self._text(node.name) for node in nodes], dtype=np.int32)
        names = np.tile(name, (steps, 1))
        names[:, 0] = [self._text(f"ProfilerStep#{step}") for step in range(steps)]
        events = {
            "thread": np.zeros(count * steps, dtype=np.int32),
            "parent": np.where(parent >= 0, parent + base, -1).ravel().astype(np.int32),
            "name": names.ravel(),
            "kind": np.tile([node.kind for node in nodes], steps).astype(np.uint8),
            "scope": np.tile([node.scope for node in nodes], steps).astype(np.uint8),
            "start_ns": start.ravel(),
            "duration_ns": (self._until[:, last] - start).ravel(),
            "sequence_number": np.where(sequence >= 0, sequence + shift, -1).ravel(),
            "forward_thread": np.tile([int(node.is_backward) for node in nodes], steps).astype(
                np.int32
            ),
            "step": np.repeat(np.arange(steps, dtype=np.int32), count),
        }
        tables: dict[str, Any] = {"events": events, **self._calls(row), **self._program()}
        tables["allocations"] = self._allocations(row)
        tables["ledger"] = {
            "source": ["events", "events", "recorder"],
            "what": ["recorded", "dropped: no room", "cost_ns of one operator"],
            "value": [float(count * steps), float(self._rank), 0.0],
        }
        return Trace(tables, Names.from_strings(self._texts), self._metadata())

    def _of_nodes(self, what: str) -> Values:
        found = [getattr(node, what) for node in self._job.template.nodes]
        return np.array(found, dtype=np.int64)

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    def _calls(self, row: Values) -> dict[str, Any]:
        found = {}
        caller, frame = self._of_nodes("caller"), self._of_nodes("frame")
        is_operator = self._of_nodes("kind") == EventKind.OPERATOR
        for table, chosen in (
            ("python_calls", ~is_operator & ((caller >= 0) | (frame >= 0))),
            ("operator_calls", is_operator & (caller >= 0)),
        ):
            which = np.flatnonzero(chosen)
            columns = {"caller": caller, "caller_line": self._of_nodes("line")}
            if table == "python_calls":
                columns |= {"frame": frame, "module": self._of_nodes("module")}
            found[table] = {
                name: np.tile(values[which], len(row)).astype(np.int32)
                for name, values in columns.items()
            }
            found[table]["event"] = row[:, which].ravel().astype(np.int32)
        return found

    def _program(self) -> dict[str, Any]:
        functions = (("train_step", 10), ("forward", 30), ("linear", 39), ("run_backward", 19))
        layers = range(self._job.layers)
        classes = ["Net", *("Linear" for _ in layers)]
        return {
            "frames": {
                "file": np.full(len(functions), self._text(FILE), dtype=np.int32),
                "function": np.array([self._text(one) for one, _ in functions], dtype=np.int32),
                "line": np.array([line for _, line in functions], dtype=np.int32),
            },
            "modules": {
                "address": np.arange(1, len(classes) + 1, dtype=np.uint64) * 4096,
                "class_name": np.array([self._text(one) for one in classes], dtype=np.int32),
                "name": np.array(
                    [self._text("Net_0"), *(self._text(f"Linear_{one}") for one in layers)],
                    dtype=np.int32,
                ),
                "path": np.array(
                    [-1, *(self._text(f"layers.{one}") for one in layers)], dtype=np.int32
                ),
            },
            "threads": {
                "system_thread_id": np.array([1000]),
                "torch_thread_id": np.array([1]),
                "name": np.array([self._text("main")], dtype=np.int32),
            },
        }

    def _allocations(self, row: Values) -> dict[str, Any]:
        """Every layer keeps a block until its backward has run."""
        nodes, size = self._job.template.nodes, self._job.block_bytes(self._rank)
        which = np.array([place for place, node in enumerate(nodes) if node.allocates])
        sign = np.array([nodes[place].allocates for place in which])
        taken = np.array([AllocationAction.ALLOCATE, AllocationAction.FREE])[(sign < 0).astype(int)]
        steps, layers = len(row), self._job.layers
        block = np.concatenate([np.arange(layers), np.arange(layers)[::-1]])
        number = np.tile(block, steps) + np.repeat(np.arange(steps), 2 * layers) * layers
        return {
            "event": row[:, which].ravel().astype(np.int32),
            "thread": np.zeros(which.size * steps, dtype=np.int32),
            "action": np.tile(taken, steps).astype(np.uint8),
            "time_ns": self._until[:, self._of_nodes("last")[which]].ravel() - 1,
            "address": (np.tile(block, steps) + 1).astype(np.uint64) * np.uint64(1 << 24),
            "size_bytes": np.tile(sign * size, steps),
            "total_allocated_bytes": np.tile(np.cumsum(sign) * size, steps),
            "device_type": np.zeros(which.size * steps, dtype=np.int8),
            "allocation_id": number,
        }

    def _metadata(self) -> dict[str, Any]:
        return {
            "start_ns": int(self._until[0, 0]),
            "end_ns": int(self._until[-1, -1]),
            "distributedInfo": {"rank": self._rank, "world_size": self._job.ranks},
            "options": {"memory": True},
        }
