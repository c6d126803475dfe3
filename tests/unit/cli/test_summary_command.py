"""``opscope summary``: the right rows, in every format, and mistakes answered in one paragraph."""

import csv
import io
import json

import pytest

from opscope.analysis.top_operators import SORT_KEYS
from opscope.columns.schema import EventKind
from opscope.torch_api.event_list.text_table import SORT_KEYS as TABLE_SORT_KEYS
from support.build_trace import build_trace, span

# 3 mm of 10, 40 and 10 µs; add takes 5; step's 100 µs are 35 without them.
MM = {"name": "aten::mm", "calls": 3, "cpu_self_ns": 60_000, "cpu_total_ns": 60_000}
STEP = {"name": "step", "calls": 1, "cpu_self_ns": 35_000, "cpu_total_ns": 100_000}


def rows_of(outcome):
    assert outcome.code == 0
    return json.loads(outcome.out)["rows"]


def table_of(outcome):
    """The lines from the table's heading on; before them stands what it speaks of."""
    lines = outcome.out.splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith("Name")) :]


def test_json(command_line, trace_folder):
    outcome = command_line("summary", trace_folder, "--format", "json")
    content = json.loads(outcome.out)
    first, second, last = content["rows"]
    assert first.items() >= MM.items()
    assert second.items() >= STEP.items()
    assert last["name"] == "aten::add"
    assert first["cpu_mean_ns"] == 20_000
    assert first["flops"] == 2 * (2 * 3 * 4 * 2 + 20 * 30 * 40)
    assert first["cpu_self_memory_bytes"] == 4096
    assert content["cpu_self_ns_of_all"] == 100_000
    assert content["rows_left_out"] == 0
    assert content["events"] == 5
    assert content["ledger"] == {"events": {"recorded": 5, "dropped: memory budget": 2}}


@pytest.mark.parametrize(
    ("sort_by", "names"),
    [
        ("cpu_time_total", ["step", "aten::mm", "aten::add"]),
        ("count", ["aten::mm", "step", "aten::add"]),
        ("cpu_time", ["step", "aten::mm", "aten::add"]),
        ("self_cpu_memory_usage", ["aten::mm", "step", "aten::add"]),
    ],
)
def test_sorting(command_line, trace_folder, sort_by, names):
    outcome = command_line("summary", trace_folder, "--sort-by", sort_by, "--format=json")
    assert [row["name"] for row in rows_of(outcome)] == names


def test_sort_keys_are_those_of_the_tables_in_python(command_line, trace_folder):
    assert set(SORT_KEYS) <= set(TABLE_SORT_KEYS)
    assert command_line("summary", trace_folder, "--sort-by", "cuda_time_total").code == 0


def test_grouping_by_shape(command_line, trace_folder):
    outcome = command_line("summary", trace_folder, "--group-by-shape", "--format", "csv")
    rows = [row for row in csv.DictReader(io.StringIO(outcome.out)) if row["name"] == "aten::mm"]
    assert [(row["input_shapes"], row["calls"]) for row in rows] == [
        ("[[20, 30], [30, 40]]", "1"),
        ("[[2, 3], [3, 4]]", "2"),
    ]


def test_table(command_line, trace_folder):
    outcome = command_line("summary", trace_folder, "--row-limit", "2")
    heading, first, second, empty, memory = (line.split() for line in table_of(outcome))
    assert empty == []
    assert " ".join(memory).startswith("Memory of CPU: 4.00 KiB at its peak: ")
    assert heading[:4] == ["Name", "Calls", "Self", "CPU"]
    assert first[:6] == ["aten::mm", "3", "60.00", "µs", "60.0%", "60.00"]
    assert second[:5] == ["step", "1", "35.00", "µs", "35.0%"]
    assert "1 more rows" in outcome.err
    assert "5 events, events: 2 DROPPED (memory budget)" in outcome.err
    assert "Self CPU mem" in outcome.out and "device" not in outcome.out


def test_operations_that_no_formula_counts_are_not_zero(command_line, trace_folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    outcome = command_line("summary", trace_folder, "--sort-by", "flops")
    last = [line.split()[-1] for line in table_of(outcome)[1:4]]
    assert last == ["48096", "--", "--"]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_numbers_are_never_cut(command_line, trace_folder, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    outcome = command_line("summary", trace_folder, "--sort-by", "flops")
    lines = outcome.out.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    assert "…" not in outcome.out
    assert {"Calls", "FLOPs"} <= set(table_of(outcome)[0].split())  # a column sorted by stays
    assert ("not shown" in outcome.out) == (width < 100)


def test_markdown(command_line, trace_folder):
    outcome = command_line("summary", trace_folder, "--format", "md", "--row-limit", "1")
    assert outcome.out.startswith("verdict: ")
    about, empty, *lines = outcome.out[outcome.out.index("Recording, ") :].splitlines()
    lost = "DROPPED: 2 (memory budget)"
    assert about == f"Recording, 100 µs. {lost}; Self CPU % refers to this time." and empty == ""
    assert lines[0].startswith("| Name | Calls | Self CPU | Self CPU % |")
    assert set(lines[1]) <= set("| -:")
    assert lines[2].startswith("| aten::mm | 3 | 60.00 µs | 60.0% |")
    assert len({line.count("|") for line in lines[:3]}) == 1
    assert lines[3:] == ["", "Memory of CPU: 4.00 KiB at its peak: forward 4.00 KiB"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--sort-by", "speed"], 2, "cannot be sorted by 'speed'. Choose one of: count,"),
        (["--row-limit", "0"], 2, "must be 1 or more, or -1 for all"),
        (["--format", "xml"], 2, "--format: 'xml' is not one of table, md, json, csv."),
        (["--rank", "3"], 2, "has no rank 3"),
    ],
)
def test_wrong_options(command_line, trace_folder, arguments, code, said):
    outcome = command_line("summary", trace_folder, *arguments)
    assert outcome.code == code
    assert said in outcome.complaint
    assert outcome.out == ""


def test_sections_have_stable_keys_and_bounded_length(command_line, tmp_path):
    spans = []
    for i in range(20):
        start = i * 100
        spans += [
            span(f"Layer_{i}", start, start + 60, kind=EventKind.MODULE_CALL, module=f"Layer_{i}"),
            span("aten::mm", start + 10, start + 50),
        ]
    spans += [span("gc", at, at + 50, kind=EventKind.GC_PAUSE) for at in (2000, 2050)]
    build_trace(spans).save(tmp_path / "modules.opscope")
    outcome = command_line("summary", tmp_path / "modules.opscope", "--format", "json")
    content = json.loads(outcome.out)
    assert len(content["modules"]) == 5
    assert content["modules"][0] == {
        "module": "Layer_0", "class": "Layer", "calls": 1, "self_ns": 60_000, "backward_ns": 0,
        "total_ns": 60_000, "device_ns": 0,
    }  # fmt: skip
    assert content["memory"] == []
    (finding,) = content["findings"]
    assert finding["id"] == "garbage-collections"
    assert finding["saved_ns"] == 100_000
    text = command_line("summary", tmp_path / "modules.opscope").out
    assert "Garbage collections interrupt the program" in text
    below = text[text.index("Module ") :]
    assert "Layer_4" in below and "Layer_5" not in below
    markdown = command_line("summary", tmp_path / "modules.opscope", "--format", "md").out
    assert "## What to change" in markdown
    assert "| Layer_0 | 1 | 60.0 µs | 0 ns | 60.0 µs |" in markdown


def test_a_trace_without_operators_is_not_a_success(command_line, tmp_path):
    pause = span("Python GC", 0, 10, kind=EventKind.GC_PAUSE)
    build_trace([pause]).save(tmp_path / "pause.opscope")
    outcome = command_line("summary", tmp_path / "pause.opscope")
    assert "contains no operators" in outcome.complaint and "opscope sql" in outcome.complaint


def test_what_waits_is_marked_and_comes_last_and_steps_do_not_rank(command_line, tmp_path):
    wait = "<built-in method acquire of _thread.lock object at 0x7f>"
    build_trace(
        [
            span("ProfilerStep#3", 0, 100, kind=EventKind.ANNOTATION),
            span(wait, 0, 90, "other", kind=EventKind.C_CALL),
            span("aten::mm", 10, 20),
            span("aten::add", 95, 99, "other"),
        ]
    ).save(tmp_path / "waits.opscope")
    outcome = command_line("summary", tmp_path / "waits.opscope")
    names = [line.split("  ")[0] for line in table_of(outcome)[1:4]]
    assert names[:2] == ["aten::mm", "aten::add"]
    assert names[2].startswith("(waiting) <built-in method acquire")
    assert " 10.0% " in table_of(outcome)[1]
    content = json.loads(command_line("summary", tmp_path / "waits.opscope", "--format=json").out)
    assert [row["name"] for row in content["rows"]] == ["aten::mm", "aten::add"]
    assert [row["name"] for row in content["waiting"]] == [wait]
    everything = command_line(
        "summary", tmp_path / "waits.opscope", "--format=csv", "--row-limit=-1"
    )
    assert [row["name"] for row in csv.DictReader(io.StringIO(everything.out))][-1] == wait


def test_start_up_is_left_out_and_can_be_opened(command_line, tmp_path):
    spans, at = [], 0
    for took in (300, *[100] * 5):
        spans.append(span("aten::rand" if at == 0 else "aten::mm", at, at + 50))
        step = span("Optimizer.step#SGD.step", at + took - 10, at + took, kind=EventKind.ANNOTATION)
        spans.append(step)
        at += took
    build_trace(spans).save(tmp_path / "train.opscope")

    def first_row(*options):
        outcome = command_line("summary", tmp_path / "train.opscope", *options)
        return outcome.out, table_of(outcome)[1].split()

    about, row = first_row()
    assert "\nSteady state, 500 µs, 5 steps of the optimizer;" in about
    assert "Not included: start-up, until the first step of the optimizer: 300 µs" in about
    assert (row[0], row[4]) == ("aten::mm", "50.0%")
    about, row = first_row("--period", "start-up")
    assert "\nStart-up, 300 µs;" in about and "Left out" not in about
    assert (row[0], row[4]) == ("aten::rand", "16.7%")
    about, row = first_row("--period", "all")
    assert "\nRecording, 800 µs, 6 steps of the optimizer;" in about
    assert (row[0], row[4]) == ("aten::mm", "31.2%")
    outcome = command_line("summary", tmp_path / "train.opscope", "--period", "warm")
    assert "'warm' is not one of steady, start-up, all" in outcome.complaint


@pytest.mark.parametrize(
    ("key", "said"), [("flops", "has no shapes"), ("self_cpu_memory_usage", "no memory")]
)
def test_rows_are_not_sorted_by_what_was_not_recorded(command_line, tmp_path, key, said):
    build_trace([("aten::mm", 0, 10)]).save(tmp_path / "plain.opscope")
    outcome = command_line("summary", tmp_path / "plain.opscope", "--sort-by", key)
    assert said in outcome.complaint and "Record with --" in outcome.complaint


@pytest.mark.parametrize("pauses", [[], [span("gc: generation 0", 0, 2, kind=EventKind.GC_PAUSE)]])
def test_a_dump_without_operators_says_at_least_why_it_was_made(command_line, tmp_path, pauses):
    dump = {
        "reason": "death",
        "detail": "killed by SIGKILL",
        "time_ns": 0,
        "held_s": 9.0,
        "requested_s": 9.0,
    }
    ended = {"how": "its process was killed by SIGKILL", "whole": False}
    trace = build_trace(pauses).with_metadata({"dump": dump, "ended": ended, "end_ns": 10_000})
    trace.save(tmp_path / "dump.opscope")
    outcome = command_line("summary", tmp_path / "dump.opscope")
    assert "contains no" in outcome.err
    assert outcome.out.startswith("dump because of: death (killed by SIGKILL)")
    assert "was not stopped: its process was killed by SIGKILL" in outcome.out
