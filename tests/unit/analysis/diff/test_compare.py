"""Comparisons of programs that are known to be the same, or to differ in one thing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opscope
from opscope.analysis.diff.result import Level, Quantity, TimeVerdict
from opscope.api.diff import diff
from opscope.errors import UsageError
from support.build_trace import build_trace, span
from support.step_programs import BLOCKS, step_program


def recordings(count, seed=0, **options):
    """Each with noise in every time, and on a machine as fast as it happens to be."""
    random = np.random.default_rng(seed)
    speeds = 1 + 0.05 * random.standard_normal(count)
    return [
        step_program(noise=0.03, speed=speed, seed=seed * 100 + number, **options)
        for number, speed in enumerate(speeds)
    ]


@pytest.fixture(scope="module")
def usual():
    """The program as it is, three times."""
    return recordings(3)


def changed(found, level):
    return {one.place.module or one.place.operator: one.verdict for one in found.changed(level)}


def test_a_recording_beside_itself():
    trace = step_program(noise=0.1)
    found = diff(trace, trace)
    assert not found.is_changed
    assert found.step.change_ns == found.places_ns == 0
    assert found.not_judged == ()


def test_nothing_changed_but_noise(usual):
    found = diff(usual, recordings(3, seed=1))
    assert not found.is_changed
    assert found.step.a_ns == pytest.approx(1_325_000, rel=0.2)


def test_one_module_is_slower(usual):
    slower = recordings(3, seed=2, took_us={"block7": 150})
    found = diff(usual, slower)
    assert changed(found, Level.MODULE) == {"block7": TimeVerdict.SLOWER}
    (one,) = found.changed(Level.MODULE)
    assert one.change_ns == pytest.approx(50_000, abs=15_000)
    assert one.moved_ns == 0
    assert found.counts == found.shapes == ()


def test_a_slower_machine_makes_no_place_slower(usual):
    slow = [step_program(noise=0.03, speed=1.4, seed=900 + number) for number in range(3)]
    found = diff(usual, slow)
    assert found.changed(Level.MODULE) == found.changed(Level.CALL) == ()
    assert found.step.verdict is TimeVerdict.SLOWER
    assert found.alike_ns == pytest.approx(0.4 * 1_325_000, rel=0.4)
    assert abs(found.places_ns) < 0.1 * found.alike_ns


def test_the_mean_step_is_what_places_and_all_alike_add_up_to(usual):
    found = diff(usual, recordings(3, seed=5, took_us={"block2": 190}))
    parts = (found.places_ns, found.alike_ns, found.interruptions_ns)
    assert sum(parts) == pytest.approx(found.mean_step.change_ns)
    assert abs(found.interruptions_ns) < 5_000
    phases = [one for one in found.times if one.level is Level.PHASE]
    assert sum(one.change_ns for one in phases) == pytest.approx(found.places_ns)


def test_steps_of_which_some_are_slower_are_judged_by_their_mean():
    def stretches(more_us, seed):
        took = 1000 + 5 * np.random.default_rng(seed).standard_normal(60)
        took[::2] += more_us
        ends = np.cumsum(took).tolist()
        starts = [0.0, *ends[:-1]]
        steps = enumerate(zip(starts, ends, strict=True))
        return build_trace([span(f"ProfilerStep#{number}", *step) for number, step in steps])

    old, new = ([stretches(us, seed) for seed in range(us, us + 5)] for us in (0, 30))
    found = diff(old, new)
    assert found.step == found.mean_step
    assert found.step.verdict is TimeVerdict.SLOWER
    assert found.step.change_ns == pytest.approx(15_000, rel=0.1)


@settings(max_examples=8, deadline=None)
@given(
    st.dictionaries(st.sampled_from(BLOCKS), st.integers(1, 4), max_size=5),
    st.dictionaries(st.sampled_from(BLOCKS), st.integers(1, 4), max_size=5),
)
def test_exactly_the_numbers_of_calls_that_differ(before, after):
    found = diff(step_program(steps=3, calls=before), step_program(steps=3, calls=after))
    said = {
        one.place.module: (one.a.mean, one.b.mean)
        for one in found.counts
        if one.quantity is Quantity.CALLS
    }
    numbers = {name: (before.get(name, 1), after.get(name, 1)) for name in BLOCKS}
    assert said == {name: pair for name, pair in numbers.items() if pair[0] != pair[1]}
    sizes = {one.place.module for one in found.counts if one.quantity is Quantity.BYTES}
    assert sizes == set(said)


@settings(max_examples=8, deadline=None)
@given(
    st.dictionaries(st.sampled_from(BLOCKS), st.sampled_from([8, 16, 32]), max_size=5),
    st.dictionaries(st.sampled_from(BLOCKS), st.sampled_from([8, 16, 32]), max_size=5),
)
def test_exactly_the_shapes_and_bytes_that_differ(before, after):
    found = diff(step_program(steps=3, width=before), step_program(steps=3, width=after))
    widths = {name: (before.get(name, 8), after.get(name, 8)) for name in BLOCKS}
    others = {name: pair for name, pair in widths.items() if pair[0] != pair[1]}
    said = {one.place.module: (one.a, one.b) for one in found.shapes}
    assert said == {
        name: tuple((f"1 x [4, {width}], [{width}, 4]",) for width in pair)
        for name, pair in others.items()
    }
    sizes = {one.place.module: (one.a.least, one.b.least) for one in found.counts}
    assert sizes == {name: (64 * a, 64 * b) for name, (a, b) in others.items()}


def test_a_module_that_is_there_no_more(usual):
    found = diff(usual, recordings(3, seed=1, without=["block5"]))
    (module,) = found.changed(Level.MODULE)
    assert (module.place.module, module.b_ns, module.verdict) == ("block5", 0, TimeVerdict.FASTER)
    gone = {(one.place.operator, one.a.mean, one.b) for one in found.counts}
    assert ("aten::mm", 1.0, None) in gone


def test_numbers_that_differ_from_step_to_step_may_differ():
    def sometimes(steps, from_step):
        def add(spans):
            marks = [one for one in spans if one.name.startswith("ProfilerStep")]
            extra = [span("aten::add", one.start + 1, one.start + 2) for one in marks[from_step::5]]
            return [*spans, *extra]

        return step_program(steps=steps, change=add)

    assert diff(sometimes(30, 0), sometimes(33, 2)).counts == ()


def test_too_few_steps_are_not_judged():
    found = diff(step_program(steps=5), step_program(steps=5, took_us={"block0": 900}))
    assert found.step is None
    assert found.times == ()
    assert "too few steps: 5" in found.not_judged[0]
    assert found.counts == ()  # that much can be said


def test_a_program_without_steps_is_not_judged():
    trace = build_trace("aten::mm 0..10\naten::mm 20..30")
    found = diff(trace, trace)
    assert "has no steps" in found.not_judged[0]
    assert set(found.not_counted) == {"count", "bytes", "shapes"}


@pytest.mark.parametrize(
    ("metadata", "despite", "why"),
    [
        ({"torch_version": "2.9"}, "versions", "torch differs: unknown and 2.9"),
        (
            {"options": {"shapes": True, "stack": True}},
            "options",
            "differ, and so does the overhead",
        ),
    ],
)
def test_other_versions_and_options_are_not_compared_unless_requested(metadata, despite, why):
    old, new = step_program(), step_program(metadata=metadata)
    refused = diff(old, new)
    assert refused.step is None
    assert refused.start_up is None
    assert why in refused.not_judged[0]
    allowed = diff(old, new, despite=[despite])
    assert allowed.step is not None
    assert any(why in note for note in allowed.notes)


def test_what_only_one_side_recorded_is_reported():
    without = step_program(
        change=lambda spans: [
            span(s.name, s.start, s.end, kind=s.kind, module=s.module) for s in spans
        ]
    )
    found = diff(step_program(), without)
    assert any(note.startswith("only A recorded argument shapes") for note in found.notes)
    assert found.not_counted["shapes"] == "argument shapes were not recorded on both sides"
    assert found.counts == ()


def test_lost_events_make_counts_uncertain():
    trace = step_program()
    lost = trace.with_tables(
        {"ledger": build_trace("a 0..1", ledger={"events": {"dropped: x": 3}}).table("ledger")}
    )
    found = diff(trace, lost)
    assert "events were dropped" in found.not_counted["count"]
    assert any("DROPPED" in note for note in found.notes)


@pytest.mark.parametrize(
    ("new", "despite", "why"),
    [
        ([], (), "no recording of the second side"),
        (build_trace([]), (), "contains no events"),
        (step_program(), ["weather"], "versions, options"),
    ],
)
def test_what_cannot_be_compared_is_an_error(new, despite, why):
    with pytest.raises(UsageError, match=why):
        opscope.diff(step_program(), new, despite=despite)


def beside_others(seed, work_us, pieces):
    """60 steps of equal pieces. Another program runs in two of three twentieths of a step, and
    makes these up to 30 % longer."""
    random, end = np.random.default_rng(seed), 0.0
    spans = []
    for number in range(60):
        meets = random.random(20) < 2 / 3
        took = work_us / 20 * (1 + 0.3 * random.random(20) * meets)
        ends = end + took.reshape(pieces, -1).sum(axis=1).cumsum()
        spans.append(span(f"ProfilerStep#{number}", end, ends[-1]))
        for piece, until in enumerate(ends.tolist()):
            spans.append(span(f"aten::op{piece}_{pieces}", end, until))
            end = until
    return build_trace(spans)


def test_pieces_of_steps_are_undisturbed_more_often_than_whole_steps():
    old = [beside_others(seed, 1000, 20) for seed in range(5)]
    slower = diff(old, [beside_others(seed, 1050, 20) for seed in range(5, 10)]).step
    assert slower.verdict is TimeVerdict.SLOWER
    assert slower.relative == pytest.approx(0.05, abs=0.02)
    assert slower.a_ns < 1_070_000  # a step takes 1.1 ms on average, and never less than 1.04 ms


def test_a_step_of_other_pieces_is_not_faster():
    old = [beside_others(seed, 1000, 1) for seed in range(5)]
    assert not diff(old, [beside_others(seed, 1000, 20) for seed in range(5, 10)]).step.is_changed
