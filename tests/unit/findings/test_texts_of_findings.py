"""What findings say beside what was found: places, order, what was not looked for, of what time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from opscope.columns.ledger import KIND_COST, CostKind
from opscope.columns.schema import EventKind, RecordScope
from opscope.findings.find import find_findings
from opscope.findings.patterns import all_patterns
from support.build_trace import build_trace, span
from support.finding import finding
from support.findings_of_pictures import MICROSECOND, found, loads


def test_places_are_lines_of_the_program_not_of_libraries():
    library = ("/usr/lib/python3/dist-packages/torch/x.py", 7, "wrapper")
    spans = [
        span("train", 0, 500, kind=EventKind.PYTHON_CALL, frame=("train.py", 3, "train")),
        *(
            one
            for i in (0, 1)
            for one in (
                span("wrapper", 10 + 100 * i, 90 + 100 * i, kind=EventKind.PYTHON_CALL,
                     frame=library, caller=("train.py", 12, "train")),
                span("item", 20 + 100 * i, 80 + 100 * i, kind=EventKind.C_CALL, caller=library),
                span("aten::item", 30 + 100 * i, 70 + 100 * i),
                span("aten::_local_scalar_dense", 31 + 100 * i, 60 + 100 * i),
            )
        ),
    ]  # fmt: skip
    finding = found(build_trace(spans), "implicit-synchronisation")
    (place,) = finding.places
    assert (str(place), place.function, place.occurrences) == ("train.py:12", "train", 2)
    assert place.time_ns == 80 * MICROSECOND
    assert finding.place_note == ""


def test_modules_stand_in_for_lines():
    spans = [
        span("Net_0", 0, 500, kind=EventKind.MODULE_CALL, module="Net_0"),
        span("gc", 10, 60, kind=EventKind.GC_PAUSE),
    ]
    finding = found(build_trace(spans), "garbage-collections")
    assert [str(place) for place in finding.places] == ["Net_0"]
    assert "--stack" in finding.place_note


def test_what_was_not_recorded_is_reported():
    findings = find_findings(build_trace([span("aten::mm", 0, 10)]))
    needs = {one.id: one.needs for one in findings.unchecked}
    assert "--shapes" in needs["unaligned-matmul"]
    assert "--memory" in needs["gradients-in-inference"]
    assert "GPU" in needs["extra-device-copy"]
    assert len(findings.absent) + len(needs) == len(all_patterns())


def test_those_that_save_most_come_first_and_json_has_all():
    trace = build_trace([
        *loads("_SingleProcessDataLoaderIter", 30),
        span("gc", 190, 195, kind=EventKind.GC_PAUSE),
    ])  # fmt: skip
    findings = find_findings(trace)
    assert [one.id for one in findings] == ["synchronous-data-loading", "garbage-collections"]
    assert findings[0] is findings["synchronous-data-loading"]
    content = json.loads(json.dumps(findings.as_dict()))
    assert content["wall_ns"] == 195 * MICROSECOND
    assert content["findings"][0]["saved_ns"] == 100 * MICROSECOND
    assert content["findings"][0]["saved_share"] == pytest.approx(100 / 195, abs=1e-6)
    with pytest.raises(KeyError):
        findings["no such"]
    assert find_findings(build_trace([])).unexplained.share == 0


def test_notebooks_show_them_as_text_alone():
    spans = [
        span("<b>", 0, 500, kind=EventKind.MODULE_CALL, module="<b>_0"),
        span("gc", 10, 60, kind=EventKind.GC_PAUSE),
        span("gc", 70, 120, kind=EventKind.GC_PAUSE),
    ]
    html = find_findings(build_trace(spans))._repr_html_()
    assert "Garbage collections interrupt the program" in html
    assert "100 µs" in html
    assert "&lt;b&gt;</td>" in html


def test_the_documentation_lists_every_pattern_and_each_says_what_to_do():
    assert all(pattern.advice.endswith(".") for pattern in all_patterns())
    text = (Path(__file__).parents[3] / "docs" / "findings.md").read_text()
    listed = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `")]
    assert sorted(listed) == sorted(pattern.id for pattern in all_patterns())


@pytest.mark.parametrize("level", ["own_functions", "functions", "stack"])
def test_what_only_calls_of_libraries_show_is_not_said_to_be_absent_without_them(level):
    options = {"own_functions": True, "functions": False, "stack": False, level: True}
    calls = [
        span("train", 0, 200, kind=EventKind.PYTHON_CALL, frame=("train.py", 3, "train")),
        span("step", 0, 90, kind=EventKind.PYTHON_CALL, frame=("train.py", 9, "step")),
        span("aten::mm", 0, 90),
    ]
    findings = build_trace(calls, metadata={"options": options}).findings()
    unchecked = {one.id: one.needs for one in findings.unchecked}
    for pattern in ("modules-made-again", "workers-started-again", "recomputation"):
        assert (pattern in findings.absent) == (level != "own_functions")
        assert level != "own_functions" or "--stack" in unchecked[pattern]


def anomaly(first_us):
    """Twenty forward and backward passes under anomaly mode, seen without calls of libraries."""
    spans = [span("train", 0, 20_000, kind=EventKind.PYTHON_CALL, frame=("train.py", 3, "train"))]
    for number in range(20):
        at = 1_000 * number
        spans += [
            span("aten::t", at, at + first_us, sequence_number=2 * number),
            span("aten::addmm", at + 200, at + 500, sequence_number=2 * number + 1),
        ]
        for node, begin in (("AddmmBackward0", 600), ("TBackward0", 700)):
            numbered = 2 * number + (node == "AddmmBackward0")
            spans += [
                span(f"autograd::engine::evaluate_function: {node}", at + begin, at + begin + 90),
                span(
                    node, at + begin, at + begin + 10, scope=RecordScope.BACKWARD_FUNCTION,
                    sequence_number=numbered, forward_thread=1,
                ),
                span("aten::isnan", at + begin + 20, at + begin + 60),
            ]  # fmt: skip
    return build_trace(spans, metadata={"options": {"own_functions": True}})


def test_anomaly_mode_costs_what_operators_take_that_compute_nothing():
    checks = 20 * 2 * 40_000
    slow, quick = (anomaly(us).findings()["anomaly-detection"] for us in (100, 2))
    # As much of each product, too: the rest of it is computing.
    assert slow.saved_ns == checks + 20 * 2 * 100_000
    assert quick.saved_ns == checks + 20 * 2 * 2_000


def test_savings_say_that_they_are_of_the_recorded_time_where_its_cost_is_not_known():
    spans = [span("train", 0, 2_000, kind=EventKind.PYTHON_CALL, frame=("train.py", 3, "train"))]
    unknown = build_trace(spans, ledger={"recorder": {"stopped early by a fault": 1.0}}).findings()
    assert any("is unknown" in note for note in unknown.notes)
    rows = {"recorder": {f"{KIND_COST}{CostKind.OPERATOR.value}": 100.0}}
    assert not any("is unknown" in n for n in build_trace(spans, ledger=rows).findings().notes)


def test_what_saves_next_to_nothing_is_listed_but_not_named_first():
    little = finding(title="little", saved_ns=0, saved_share=0.0)
    unknown = finding(title="unknown", saved_ns=None, saved_share=None)
    large = finding(title="large")
    memory = finding(title="memory", saved_ns=0, saved_share=0.0, saved_bytes_share=0.1)
    found = tuple(one[0] for one in (large, memory, unknown, little))
    findings = replace(large, found=found)
    assert [one.title for one in findings.foremost(3)] == ["large", "memory", "unknown"]
    assert findings.foremost(1) == found[:1]
    assert len(findings) == 4
    assert little.foremost(3) == ()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("shapes", "no operator in this period has tensors"),
        ("modules", "this period has no module call"),
        ("own_functions", "none of the program's own"),
    ],
)
def test_what_was_recorded_elsewhere_is_not_requested_again(option, said):
    """A part of a recording may have no operator at all while a device goes on."""
    spans = [span("wait", 0, 10, kind=EventKind.RUNTIME_CALL)]

    def needed(options):
        trace = build_trace(spans, metadata={"options": options})
        return " ".join(one.needs for one in find_findings(trace, which="all").unchecked)

    assert said in needed({option: True})
    assert said not in needed({option: False})
