"""Random programs: threads that do everything at once while profiles start and stop in others.

    python random_windows.py FIRST_SEED COUNT

runs one program per seed and checks what every profile recorded; the seed decides the program,
the machine how its threads are interleaved. Prints each seed and the resident memory after it.
"""

import contextlib
import faulthandler
import gc
import itertools
import json
import random
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import torch

import opscope
from opscope import _native
from opscope.trace.schema import EventKind, Role

FIRST_SIZE = 1000  # tensors of thread n have so many rows plus n
SLACK_NS = 200_000_000  # between Python's look at the clock and the recorder's
OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_modules", "record_outputs")
OPERATORS = ("aten::", "autograd::", "torch::autograd::", "MulBackward", "SumBackward", "detach")


class Death(Exception):
    """Ends a thread in the middle of what it does."""


class World:
    """What a program's threads share, and what is known of it from outside."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.numbers, self.markers = itertools.count(), itertools.count()
        self.workers, self.windows, self.errors = [], [], []
        self.native_ids = {}
        self.handed_over = []  # annotations for whichever thread comes by to leave
        self.to_stop = []  # windows for whichever thread comes by to stop

    def choice_of(self, items):
        """Takes one away, or None."""
        with self.lock:
            return items.pop() if items else None


class Worker(threading.Thread):
    """Does ``actions`` random things; everything it names has its number in it."""

    def __init__(self, world, actions):
        super().__init__()
        self.world, self.actions = world, actions
        with world.lock:
            self.number = next(world.numbers)
            self.random = random.Random(world.random.random())
            world.workers.append(self)
        self.size = FIRST_SIZE + self.number
        self.model = torch.nn.Sequential(torch.nn.Linear(self.size, 2), torch.nn.ReLU())
        self.left_open, self.generators = [], []
        namespace = {}
        exec(f"def work_{self.number}(act): act()", namespace)
        self.own_function = namespace[f"work_{self.number}"]

    def run(self):
        self.world.native_ids[self.number] = threading.get_native_id()
        try:
            for _ in range(self.actions):
                self.own_function(self.act)
        except Death:
            pass
        except BaseException:
            self.world.errors.append(traceback.format_exc())

    def span(self, what):
        return opscope.record_function(f"w{self.number} {what}")

    def act(self, depth=0):
        actions = [self.operate, self.call_module, self.differentiate, self.fail, self.generate]
        actions += [self.recurse, self.leave_open, self.close_late, self.hand_over, self.take_over]
        if depth < 4:
            actions += [lambda: self.annotate(depth)] * 4
        if depth == 0:
            actions += [self.spawn]
        if self.random.random() < 0.01:
            raise Death
        self.random.choice(actions)()

    def operate(self):
        torch.full((self.size, 2), 1.0).add_(1).sum()

    def call_module(self):
        self.model(torch.ones(1, self.size))

    def differentiate(self):
        (torch.ones(self.size, requires_grad=True) * 2).sum().backward()

    def annotate(self, depth):
        with self.span(f"at depth {depth}"):
            for _ in range(self.random.randrange(3)):
                self.act(depth + 1)

    def fail(self):
        def key(item):
            with self.span("in a C call"):
                torch.ones(self.size)
                raise ValueError(item)

        with contextlib.suppress(ValueError), self.span("failing"):
            sorted([2, 1], key=key)
        with contextlib.suppress(RuntimeError):
            torch.ones(self.size) @ torch.ones(self.size + 1)

    def generate(self):
        def numbers():
            with self.span("in a generator"):
                for number in range(3):
                    yield torch.full((self.size,), number)

        self.generators.append(numbers())
        generator = self.random.choice(self.generators)
        next(generator, None)
        if self.random.random() < 0.5:  # closed, or dropped: both end it where it stands
            self.generators.remove(generator)

    def recurse(self, levels=12):
        if levels:
            self.recurse(levels - 1)
        else:
            self.operate()

    def leave_open(self):
        self.left_open.append(self.span("left open"))
        self.left_open[-1].__enter__()

    def close_late(self):
        if self.left_open:
            place = self.random.randrange(len(self.left_open))
            self.left_open.pop(place).__exit__(None, None, None)

    def hand_over(self):
        span = self.span("handed over")
        span.__enter__()
        with self.world.lock:
            self.world.handed_over.append(span)

    def take_over(self):
        span = self.world.choice_of(self.world.handed_over)
        if span is not None:
            span.__exit__(None, None, None)

    def spawn(self):
        if len(self.world.workers) < 12:
            Worker(self.world, self.actions // 2).start()


class Window:
    """One profile, when it was open, and which markers it must and may have."""

    def __init__(self, options):
        self.profile = opscope.profile(**options)
        self.all_threads = options["all_threads"]
        self.thread = threading.get_ident()
        self.must, self.may = set(), set()
        self.is_open, self.is_over = False, False
        self.began_ns = self.ended_ns = 0


class Controller(Worker):
    """Starts and stops profiles, its own and others'."""

    def act(self, depth=0):
        roll = self.random.random()
        if roll < 0.35:
            self.mark()
        elif roll < 0.6 and depth < 3:
            self.profile_something(depth)
        elif roll < 0.7:
            other = self.world.choice_of(self.world.to_stop)
            if other is not None:
                self.stop(other)
        else:
            super().act(4)

    def profile_something(self, depth):
        options = {option: self.random.random() < 0.4 for option in OPTIONS}
        window = Window({**options, "all_threads": self.random.random() < 0.85})
        with self.world.lock:
            window.began_ns = time.time_ns()
            self.world.windows.append(window)
        window.profile.start()
        with self.world.lock:
            window.is_open = True
        for _ in range(self.random.randrange(1, 6)):
            with contextlib.suppress(Death):
                self.act(depth + 1)
        if self.random.random() < 0.3:
            with self.world.lock:
                self.world.to_stop.append(window)
        else:
            self.stop(window)

    def mark(self):
        name = f"marker {next(self.world.markers)}"
        windows = self.world.windows
        with self.world.lock:
            open_before = {w for w in windows if w.is_open}
            possible = {w for w in windows if not w.is_over}
        with opscope.record_function(name):
            torch.full((self.size,), 1)
        with self.world.lock:
            for window in {w for w in windows if not w.is_over} | possible:
                window.may.add(name)
            for window in {w for w in open_before if w.is_open}:
                if window.all_threads or window.thread == threading.get_ident():
                    window.must.add(name)

    def stop(self, window):
        with self.world.lock:
            window.is_open = False
        window.profile.stop()
        with self.world.lock:
            window.is_over = True
            window.ended_ns = time.time_ns()
        self.look(window.profile)

    def look(self, profile):
        trace = profile.trace
        with tempfile.TemporaryDirectory() as folder:
            file = str(Path(folder) / "trace.json")
            look = self.random.randrange(5)
            if look == 0:
                profile.export_chrome_trace(file)
                assert json.loads(Path(file).read_text())["traceEvents"]
            elif look == 1:
                loaded = opscope.load(trace.save(Path(folder) / "trace"))
                for column in ("thread", "parent", "name", "start_ns", "duration_ns"):
                    assert (loaded.events[column] == trace.events[column]).all(), column
            elif look == 2:
                profile.key_averages(group_by_input_shape=True).table()
            elif look == 3:
                profile.export_perfetto(file)
            else:
                assert sum(1 for _ in trace.tree().depth_first()) >= len(trace.events)


def check(window, world):
    """Everything that must hold for what one profile recorded, whatever ran meanwhile."""
    trace = window.profile.trace
    events = trace.events
    names = [trace.event_name(row) for row in range(len(events))]
    check_nesting(trace)
    check_attribution(trace, names, world)
    if len(events):
        assert events["start_ns"].min() >= window.began_ns - SLACK_NS
        assert trace.end_ns.max() <= window.ended_ns + SLACK_NS
    ledger = trace.ledger
    assert ledger["events"]["dropped: memory budget"] == 0
    assert ledger["events"]["recorded"] == len(events)
    found = markers(trace)
    assert len(found) == len(set(found)), "a marker is there twice"
    assert window.must <= set(found), window.must - set(found)


def markers(trace):
    names = (trace.event_name(row) for row in range(len(trace.events)))
    return [name for name in names if name.startswith("marker")]


def check_nesting(trace):
    events, end = trace.events, trace.end_ns
    parent, start, thread = events["parent"], events["start_ns"], events["thread"]
    rows = np.flatnonzero(parent >= 0)
    assert (parent[rows] < rows).all()
    assert (thread[rows] == thread[parent[rows]]).all()
    assert (start[rows] >= start[parent[rows]]).all()
    assert (np.diff(start) >= 0).all() and (events["duration_ns"] >= 0).all()
    # Annotations may outlast what they began in; anything else ends before its parent, and
    # before the next one with the same parent.
    strict = (events["kind"] != EventKind.ANNOTATION) & ~events["is_async"]
    inside = rows[strict[rows] & strict[parent[rows]]]
    outlasting = inside[end[inside] > end[parent[inside]]]
    assert not len(outlasting), described(trace, outlasting[:3])
    order = np.lexsort((np.arange(len(start)), parent, thread))
    order = order[strict[order]]
    before, after = order[:-1], order[1:]
    siblings = (parent[before] == parent[after]) & (thread[before] == thread[after])
    overlapping = after[siblings & (end[before] > start[after])]
    assert not len(overlapping), described(
        trace, np.stack([before, after], 1)[siblings & (end[before] > start[after])].ravel()[:2]
    )


def described(trace, rows):
    """These events with all that they are in, for a failure's message."""
    lines = []
    for row in rows:
        while row >= 0:
            kind, unfinished = trace.events["kind"][row], trace.events["unfinished"][row]
            times = trace.events["start_ns"][row], trace.end_ns[row]
            lines.append(
                f"{row} {trace.event_name(row)} {EventKind(kind).name} {unfinished} {times}"
            )
            row = trace.events["parent"][row]
        lines.append("")
    return "\n".join(lines)


def check_attribution(trace, names, world):
    threads = trace.table("threads")["system_thread_id"][trace.events["thread"]]
    for row, (name, kind) in enumerate(zip(names, trace.events["kind"], strict=True)):
        if kind == EventKind.ANNOTATION and name.startswith("w"):
            owner = int(name[1:].split()[0])
        elif kind == EventKind.PYTHON_CALL and ": work_" in name:
            owner = int(name.rpartition("_")[2])
        else:
            assert kind != EventKind.ANNOTATION or name.startswith("marker"), name
            assert kind != EventKind.OPERATOR or name.startswith(OPERATORS), name
            assert name
            continue
        assert threads[row] == world.native_ids[owner], name
    tensors = trace.table("tensors")
    sizes_of = tensors.lists("sizes")
    for row in np.flatnonzero(tensors["role"] == Role.INPUT):
        sizes = sizes_of[row]
        if len(sizes) and sizes[0] >= FIRST_SIZE and names[tensors["event"][row]] == "aten::add_":
            owner = int(sizes[0]) - FIRST_SIZE
            assert threads[tensors["event"][row]] == world.native_ids[owner]


def run(seed):
    """One program, from nothing to nothing."""
    world = World(seed)
    for kind, count in ((Worker, 3), (Controller, 2)):
        for _ in range(count):
            kind(world, world.random.randrange(10, 25)).start()
    for worker in world.workers:  # grows while they run
        worker.join()
    last = Controller(world, 0)
    world.native_ids[last.number] = threading.get_native_id()
    while (window := world.choice_of(world.to_stop)) is not None:
        last.stop(window)
    for window in world.windows:  # of controllers that died
        if not window.is_over:
            last.stop(window)
    assert not world.errors, "\n".join(world.errors)
    for window in world.windows:
        check(window, world)
        assert set(markers(window.profile.trace)) <= window.may
    del world, last, window
    gc.collect()
    left = _native.statistics()
    assert (left["wanted"], left["windows"]) == (0, 0), left
    assert sys.getprofile() is None


def main():
    faulthandler.enable()
    torch.set_num_threads(1)
    first, count = int(sys.argv[1]), int(sys.argv[2])
    for seed in range(first, first + count):
        try:
            run(seed)
        except BaseException:
            print("seed", seed, "failed", flush=True)
            raise
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        print("seed", seed, "resident MiB", pages * 4096 // 2**20, flush=True)


if __name__ == "__main__":
    main()
