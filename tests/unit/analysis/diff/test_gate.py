"""Conditions: how they are read, and what becomes of them."""

import pytest

from opscope.analysis.diff.gate import Outcome, judge, read_gate
from opscope.analysis.diff.result import Level
from opscope.api.diff import diff
from opscope.columns.codes import EventKind
from opscope.errors import UsageError
from support.build_trace import span
from support.step_programs import step_program


def outcomes(gate, old, new):
    return [one.outcome for one in judge(diff(old, new), read_gate(gate))]


def several(**options):
    return [step_program(noise=0.01, seed=number, **options) for number in range(3)]


@pytest.mark.parametrize(
    ("gate", "read"),
    [
        ("step<=+2%", [("step", 0.02)]),
        (" step <= 2% , count== ", [("step", 0.02), ("count", None)]),
        ("memory<=-5%", [("memory", -0.05)]),
        ("module:net.block.0<=+10%", [("module:net.block.0", 0.1)]),
        ("operator:aten::mm<=+1.5%", [("operator:aten::mm", 0.015)]),
    ],
)
def test_conditions_are_read(gate, read):
    assert [(one.what, one.limit) for one in read_gate(gate)] == read


@pytest.mark.parametrize(
    ("gate", "complaint"),
    [
        ("", "no condition"),
        (",", "no condition"),
        ("step", "cannot be read"),
        ("step<2%", "cannot be read"),
        ("step<=fast", "cannot be read"),
        ("steps<=2%", "no quantity 'steps'"),
        ("thing:x<=2%", "no quantity 'thing:x'"),
        ("step<=2", "limit of the condition"),
        ("step<=", "limit of the condition"),
        ("count<=+2%", "limit of the condition"),
        ("step==", "takes no number"),
        ("count==3", "takes no number"),
        ("step<=1.2.3%", "cannot be read"),
    ],
)
def test_what_makes_no_sense_is_an_error(gate, complaint):
    with pytest.raises(UsageError, match=complaint):
        read_gate(gate)


def test_nothing_changed():
    gate = "step<=+2%,places<=+2%,module:block3<=+5%,memory<=+0%,memory==,count==,bytes==,shapes=="
    assert set(outcomes(gate, several(), several())) == {Outcome.PASSED}


def test_a_module_got_slower():
    gate = "step<=+2%,module:block3<=+5%,module:block4<=+5%,operator:aten::mm<=+50%"
    slower = several(took_us={"block3": 200})
    found = outcomes(gate, several(), slower)
    assert found == [Outcome.FAILED, Outcome.FAILED, Outcome.PASSED, Outcome.PASSED]


def test_a_module_is_judged_with_those_in_it():
    """The outer one does as much itself as before."""

    def nested(spans):
        around, begins = [], None
        for one in spans:
            if one.module == "block3":
                begins = one.start
            elif one.module == "block4":
                around.append(
                    span("net", begins - 1, one.end + 1, kind=EventKind.MODULE_CALL, module="net")
                )
        return [*spans, *around]

    old = several(change=nested)
    slower = several(change=nested, took_us={"block3": 150})
    gate = "module:net<=+10%,module:net.block3<=+10%,module:net.block4<=+10%"
    assert outcomes(gate, old, slower) == [Outcome.FAILED, Outcome.FAILED, Outcome.PASSED]
    found = diff(old, slower)
    assert [one.place.module for one in found.whole_modules] == ["net"]
    parts = [one for one in found.times if one.level is Level.MODULE and one.place.module]
    inside = sum(one.change_ns for one in parts if one.place.module.startswith("net"))
    assert found.whole_modules[0].change_ns == pytest.approx(inside, rel=0.05)


def test_numbers_changed():
    gate = "count==,bytes==,shapes==,memory<=+1%"
    more_calls, wider = step_program(calls={"block1": 2}), step_program(width={"block1": 9})
    failed, passed = Outcome.FAILED, Outcome.PASSED
    assert outcomes(gate, step_program(), more_calls) == [failed, failed, passed, passed]
    assert outcomes(gate, step_program(), wider) == [passed, failed, failed, failed]


def test_what_the_recordings_do_not_tell_is_not_judged():
    gate = "step<=+2%,module:absent<=+1%,start-up<=+5%,count=="
    judged = judge(diff(step_program(noise=0.1), step_program(noise=0.1)), read_gate(gate))
    assert [one.outcome for one in judged] == [*[Outcome.NOT_JUDGED] * 3, Outcome.PASSED]
    assert "record more steps or repeat the recording" in judged[0].why
    assert "no such place" in judged[1].why
    other_torch = step_program(metadata={"torch_version": "9"})
    (one,) = judge(diff(step_program(), other_torch), read_gate("step<=+900%"))
    assert one.outcome is Outcome.NOT_JUDGED and "torch differs" in one.why


def test_what_was_not_recorded_is_not_judged():
    bare = step_program(steps=3, metadata={"options": {}})
    bare = bare.with_tables(
        {name: bare.table(name).take([]) for name in ("tensors", "allocations")}
    )
    assert outcomes("memory<=+1%,bytes==,shapes==,count==", bare, bare) == [
        *[Outcome.NOT_JUDGED] * 3,
        Outcome.PASSED,
    ]
