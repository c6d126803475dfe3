"""Spans that users and libraries name: high-level ones, left open, ended elsewhere, at random."""

import pickle
import threading

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import opscope
from opscope.columns.schema import EventKind
from support.recorded import names, parents, record

torch_record_function = torch.profiler.record_function


class Momentum(torch.optim.SGD):
    """A subclass, which shows under its own name."""


STEP, ZERO = "Optimizer.step#{}.step", "Optimizer.zero_grad#{}.zero_grad"
NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def pickled_momentum(*arguments, **options):
    return pickle.loads(pickle.dumps(Momentum(*arguments, **options)))


@pytest.mark.parametrize(
    ("make", "shown"),
    [(torch.optim.AdamW, "AdamW"), (Momentum, "Momentum"), (pickled_momentum, "Momentum")],
)
@pytest.mark.parametrize("options", [{}, {"with_stack": True}], ids=str)
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


def test_data_loaders_show_every_batch_and_the_end():
    loader = torch.utils.data.DataLoader(torch.arange(12), batch_size=4)
    assert names(record(lambda: [batch.sum() for batch in loader])).count(NEXT) == 3 + 1


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


# -- Random nestings against a model in Python -----------------------------------------------------

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.integers(0, 5)),
        st.tuples(st.just("exit"), st.integers(0, 5)),
        st.tuples(st.just("mark"), st.just(0)),
    ),
    max_size=40,
)


CROSSING = [("enter", 0), ("enter", 2), ("enter", 1), ("exit", 2), ("mark", 0), ("exit", 0)]


@example([*CROSSING, ("exit", 1)])
@settings(max_examples=60)
@given(ACTIONS)
def test_random_nestings_keep_every_start_and_end(actions):
    annotations = [opscope.record_function(f"span {i}") for i in range(6)]
    begun, is_open = [], {}  # what was entered and marked; by annotation where it was entered
    with opscope.profile() as prof:
        for action, which in actions:
            if action == "enter" and which not in is_open:
                annotations[which].__enter__()
                is_open[which] = len(begun)
                begun.append(f"span {which}")
            elif action == "exit":
                annotations[which].__exit__(None, None, None)
                is_open.pop(which, None)
            else:
                with opscope.record_function("mark"):
                    pass
                begun.append("mark")
    for which in is_open:
        annotations[which].__exit__(None, None, None)
    events, end_ns = prof.trace.events, prof.trace.end_ns
    rows = [row for row, kind in enumerate(events["kind"]) if kind == EventKind.ANNOTATION]
    assert [prof.trace.event_name(row) for row in rows] == begun
    unfinished = events["unfinished"][rows].tolist()
    assert np.flatnonzero(unfinished).tolist() == sorted(is_open.values())
    assert not events["is_async"][rows].any()
    for row, is_left in zip(rows, unfinished, strict=True):
        parent = events["parent"][row]
        if parent >= 0 and not is_left:
            assert events["start_ns"][parent] <= events["start_ns"][row]
            assert end_ns[row] <= end_ns[parent]


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
