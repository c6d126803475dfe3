"""Graph breaks and compilations of several processes: the same one is counted, not repeated."""

from __future__ import annotations

from opscope.analysis.compiled_code import CompilationEvent, shared_compilations
from opscope.columns.codes import CompilationKind
from opscope.storage.partition import Partition

FIRST, SECOND = Partition("rank", 0), Partition("rank", 1)


def event(reason="a size changed", line=3, start_ns=0):
    return CompilationEvent(
        kind=CompilationKind.RECOMPILATION,
        function="forward",
        file="model.py",
        line=line,
        reason=reason,
        start_ns=start_ns,
        duration_ns=1,
        while_recording=True,
        from_cache=False,
    )


def test_the_same_at_other_times_is_one_and_what_is_most_often_comes_first():
    shared = shared_compilations(
        {FIRST: [event(line=9), event()], SECOND: [event(start_ns=5), event(start_ns=6)]}
    )
    assert [(one.event.line, one.times) for one in shared] == [
        (3, {FIRST: 1, SECOND: 2}),
        (9, {FIRST: 1}),
    ]
    assert shared[0].as_dict() == {
        "function": "forward",
        "file": "model.py",
        "line": 3,
        "reason": "a size changed",
        "processes": [{"rank": 0, "times": 1}, {"rank": 1, "times": 2}],
    }


def test_another_reason_is_another():
    assert len(shared_compilations({FIRST: [event(), event("a global changed")]})) == 2
    assert shared_compilations({FIRST: []}) == []
