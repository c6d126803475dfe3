"""Spans that users and libraries name: high-level ones, left open, ended elsewhere, at random."""

import asyncio
import gc
import pickle
import threading

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import opscope
from opscope import _native
from opscope.columns.schema import EventKind
from support.recorded import names, parents, record

torch_record_function = torch.profiler.record_function


class Momentum(torch.optim.SGD):
    """A subclass, which shows under its own name."""


STEP, ZERO = "Optimizer.step#{}.step", "Optimizer.zero_grad#{}.zero_grad"
NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def pickled(optimizer):
    return pickle.loads(pickle.dumps(optimizer))


@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (torch.optim.SGD, "SGD"),
        (torch.optim.AdamW, "AdamW"),
        (Momentum, "Momentum"),
        (lambda *args, **kwargs: pickled(torch.optim.SGD(*args, **kwargs)), "SGD"),
        (lambda *args, **kwargs: pickled(Momentum(*args, **kwargs)), "Momentum"),
    ],
    ids=["SGD", "AdamW", "subclass", "pickled", "pickled subclass"],
)
@pytest.mark.parametrize("options", [{}, {"with_stack": True}, {"profile_memory": True}], ids=str)
def test_optimizer_steps_show_as_users_know_them(make, shown, options):
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = make([parameter], lr=0.1)

    def program():
        for _ in range(4):
            optimizer.zero_grad()
            optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
            optimizer.step()

    trace = record(program, **options)
    assert names(trace).count(STEP.format(shown)) == 4
    assert names(trace).count(ZERO.format(shown)) == 4
    step = names(trace).index(STEP.format(shown))
    assert trace.events["kind"][step] == EventKind.ANNOTATION
    assert (trace.events["parent"] == step).any()


@pytest.mark.parametrize("calls_are_reported", ["before it is over", "from its end on"])
def test_a_step_during_which_calls_begin_or_end_to_be_reported_is_one(calls_are_reported):
    """As by a window of another thread; torch calls hooks after what call events show of a step."""
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    other = opscope.profile(with_stack=True)
    before, after = other.start, other.stop
    if calls_are_reported == "from its end on":
        before, after = (lambda: None), other.start
    optimizer.register_step_post_hook(lambda *_: after())
    with opscope.profile(with_modules=True) as prof:
        before()
        optimizer.step()
    other.stop()
    assert len(prof.trace.table("optimizers")) == 1
    steps = [name for name in names(prof.trace) if name.endswith(": _optimizer_step_code")]
    assert len(steps) == 1


@pytest.mark.parametrize("options", [{}, {"with_stack": True}], ids=str)
def test_data_loaders_show_every_batch_and_the_end(options):
    loader = torch.utils.data.DataLoader(torch.arange(12), batch_size=4)
    trace = record(lambda: [batch.sum() for batch in loader], **options)
    assert names(trace).count(NEXT) == 3 + 1


def test_an_annotation_around_everything_contains_it_whatever_is_recorded():
    def program():
        with torch_record_function("torch's"):
            torch.ones(2)
        with opscope.record_function("ours"):
            torch.zeros(2)

    for options in ({}, {"with_stack": True}, {"with_modules": True}, {"record_shapes": True}):
        trace = record(program, **options)
        recorded, parent = names(trace), trace.events["parent"]

        def around(row, recorded=recorded, parent=parent):
            while row >= 0 and recorded[row] not in ("torch's", "ours"):
                row = parent[row]
            return recorded[row]

        assert around(recorded.index("aten::ones")) == "torch's", options
        assert around(recorded.index("aten::zeros")) == "ours", options
        assert not trace.events["is_async"].any()
        assert not trace.events["unfinished"][recorded.index("torch's")]


def test_arguments_of_annotations():
    def program():
        with opscope.record_function("ours", "1, 2, 3"), torch_record_function("torch's", "4"):
            torch.ones(1)

    trace = record(program, record_shapes=True)
    scalars = trace.table("scalars")
    texts = {
        trace.event_name(event): trace.names[value]
        for event, value in zip(scalars["event"], scalars["value"], strict=True)
        if trace.event_name(event) in ("ours", "torch's")
    }
    assert texts == {"ours": "1, 2, 3", "torch's": "4"}
    without = record(program)
    assert len(without.table("scalars")) == 0


def test_a_decorated_function_is_a_span_per_call():
    @opscope.record_function("decorated")
    def work(x, scale=2):
        """Docstring."""
        return x * scale

    trace = record(lambda: [work(torch.ones(1)), work(torch.ones(1), scale=3)])
    assert names(trace).count("decorated") == 2
    assert parents(trace)["aten::mul"] == "decorated"
    assert (work.__name__, work.__doc__) == ("work", "Docstring.")
    assert work(torch.ones(1)).item() == 2  # also while nothing records


def test_one_object_many_times_also_inside_itself():
    again = opscope.record_function("again")

    def down(depth):
        with again:
            return 0 if depth == 0 else down(depth - 1)

    trace = record(lambda: [down(3), down(0)])
    assert names(trace) == ["again"] * 5
    assert trace.events["parent"].tolist() == [-1, 0, 1, 2, -1]
    assert not trace.events["unfinished"].any()


def test_exceptions_pass_through_and_close_the_span():
    def program():
        with pytest.raises(ZeroDivisionError), opscope.record_function("raises"):
            torch.ones(1)
            _ = 1 / 0
        torch.zeros(1)

    trace = record(program)
    assert parents(trace)["aten::ones"] == "raises"
    assert parents(trace)["aten::zeros"] == ""
    assert not trace.events["unfinished"].any()


def test_a_generator_left_in_the_middle_closes_its_span_when_it_goes():
    def numbers():
        with opscope.record_function("generator"):
            yield torch.ones(1)
            yield torch.ones(1)

    def program():
        source = numbers()
        next(source)
        torch.zeros(1)
        source.close()
        torch.full((1,), 2)

    trace = record(program)
    assert parents(trace)["aten::zeros"] == "generator"
    assert parents(trace)["aten::full"] == ""


def test_coroutines_that_take_turns():
    async def worker(name):
        with opscope.record_function(name):
            for _ in range(3):
                torch.ones(1)
                await asyncio.sleep(0)

    async def program():
        await asyncio.gather(worker("a"), worker("b"), worker("c"))

    trace = record(lambda: asyncio.run(program()))
    recorded = names(trace)
    for name in "abc":
        row = recorded.index(name)
        assert not trace.events["unfinished"][row] and not trace.events["is_async"][row]
        assert trace.events["duration_ns"][row] > 0


def test_an_annotation_nobody_closes_ends_with_its_object_or_the_recording():
    kept = []

    def program():
        opscope.record_function("forgotten").__enter__()
        torch.ones(1)
        kept.append(opscope.record_function("kept"))
        kept[0].__enter__()
        torch.zeros(1)

    trace = record(program)
    recorded = names(trace)
    forgotten, left = recorded.index("forgotten"), recorded.index("kept")
    assert not trace.events["unfinished"][forgotten]
    assert trace.events["unfinished"][left]
    assert trace.end_ns[left] == trace.metadata["end_ns"]
    assert parents(trace)["aten::ones"] == ""
    assert parents(trace)["aten::zeros"] == "kept"
    # What is recorded next is not inside it.
    assert parents(record(lambda: torch.ones(1)))["aten::ones"] == ""
    kept[0].__exit__(None, None, None)


def test_a_span_begun_here_may_end_there():
    def program():
        span = opscope.record_function("moving")
        with opscope.record_function("around"):
            span.__enter__()
            torch.ones(1)
            thread = threading.Thread(target=span.__exit__, args=(None, None, None))
            thread.start()
            thread.join()
            torch.zeros(1)

    trace = record(program)
    recorded = names(trace)
    moving = recorded.index("moving")
    assert trace.events["is_async"][moving] and not trace.events["unfinished"][moving]
    assert parents(trace)["aten::ones"] == "moving"
    assert parents(trace)["aten::zeros"] == "around"
    assert trace.ledger["events"]["ends without a start"] == 0


def test_names_are_text_whatever_is_in_them():
    texts = ['quote " and \\', "line\nbreak", "naïve 日本 🎉", "", "x" * 10_000, "a\x01b"]
    trace = record(lambda: [opscope.record_function(text).__enter__() for text in texts])
    assert names(trace) == texts
    with pytest.raises(UnicodeEncodeError):
        opscope.record_function("\ud800")
    with pytest.raises(TypeError):
        opscope.record_function(3)  # type: ignore[arg-type]


def test_garbage_collections_are_spans():
    def program():
        with opscope.record_function("around"):
            gc.collect()

    trace = record(program)
    pauses = [row for row, kind in enumerate(trace.events["kind"]) if kind == EventKind.GC_PAUSE]
    full = [row for row in pauses if trace.event_name(row) == "gc: generation 2"]
    assert len(full) == 1
    assert trace.event_name(trace.events["parent"][full[0]]) == "around"
    assert trace.events["duration_ns"][full[0]] > 0
    assert _native.gc_callback not in gc.callbacks


# -- Random nestings against a model in Python -----------------------------------------------------

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.integers(0, 5)),
        st.tuples(st.just("exit"), st.integers(0, 5)),
        st.tuples(st.just("mark"), st.just(0)),
    ),
    max_size=40,
)


class Model:
    """What a trace should say, found by looking at the whole program's times."""

    def __init__(self):
        self.spans = []  # [name, start, end]
        self.open = {}
        self.time = 0

    def enter(self, name):
        self.open.setdefault(name, []).append(len(self.spans))
        self.spans.append([name, self.time, None])

    def exit(self, name):
        if self.open.get(name):
            self.spans[self.open[name].pop()][2] = self.time

    def mark(self, name):
        self.spans.append([name, self.time, self.time + 0.5])


CROSSING = [("enter", 0), ("enter", 2), ("enter", 1), ("exit", 2), ("mark", 0), ("exit", 0)]


@example([*CROSSING, ("exit", 1)])
@settings(max_examples=150)
@given(ACTIONS)
def test_random_nestings_keep_every_start_and_end(actions):
    annotations = [opscope.record_function(f"span {i}") for i in range(6)]
    model = Model()
    with opscope.profile() as prof:
        for action, which in actions:
            model.time += 1
            if action == "enter" and not model.open.get(f"span {which}"):
                annotations[which].__enter__()
                model.enter(f"span {which}")
            elif action == "exit":
                annotations[which].__exit__(None, None, None)
                model.exit(f"span {which}")
            else:
                with opscope.record_function("mark"):
                    pass
                model.mark("mark")
    for which in range(6):
        for _ in model.open.get(f"span {which}", []):
            annotations[which].__exit__(None, None, None)
    trace = prof.trace
    rows = [r for r, kind in enumerate(trace.events["kind"]) if kind == EventKind.ANNOTATION]
    assert [trace.event_name(r) for r in rows] == [name for name, _, _ in model.spans]
    # Ends: which spans have one, and in which order they come among all starts and ends.
    unfinished = [end is None for _, _, end in model.spans]
    assert trace.events["unfinished"][rows].tolist() == unfinished
    assert not trace.events["is_async"][rows].any()
    start, end = trace.events["start_ns"][rows], trace.end_ns[rows]
    for i, (_, _, model_end) in enumerate(model.spans):
        for j, (_, other_start, other_end) in enumerate(model.spans):
            if model_end is None:
                continue
            if model_end <= other_start:
                assert end[i] <= start[j]
            if other_end is not None and model_end < other_end:
                assert end[i] <= end[j]
    check_parents(model, [position(rows, trace.events["parent"][r]) for r in rows])


def position(rows, event):
    return rows.index(event) if event in rows else None


def check_parents(model, parent_of):
    """A finished span lies in its parent, and in nothing smaller that began before it."""
    for i, (_, start, end) in enumerate(model.spans):
        parent = parent_of[i]
        if end is None:
            continue
        containing = [
            j
            for j, (_, other_start, other_end) in enumerate(model.spans[:i])
            if other_start <= start and other_end is not None and end <= other_end
        ]
        if parent is not None and model.spans[parent][2] is not None:
            assert parent in containing
        still_open = [j for j, (_, _, other_end) in enumerate(model.spans[:i]) if other_end is None]
        if not still_open and containing:
            assert parent == max(containing)
        if not still_open and not containing:
            assert parent is None


def test_operators_that_went_away_leave_no_name_behind():
    # Their schemas are freed, and the next operator's may take the same place in memory.
    called, recorded = [], []
    for number in range(40):
        library = torch.library.Library(f"opscope_passing_{number % 4}", "DEF")
        library.define(f"visit_{number}(Tensor x) -> Tensor")
        library.impl(f"visit_{number}", torch.clone, "CPU")
        called.append(f"{library.ns}::visit_{number}")
        with opscope.profile() as prof:
            getattr(getattr(torch.ops, library.ns), f"visit_{number}")(torch.ones(2))
        recorded += [event.name for event in prof.events() if "visit" in event.name]
        library._destroy()
    assert recorded == called
