"""Names that a terminal, a spreadsheet or a stream's encoding would take for something else."""

import csv
import io
import json
import re
import sys

import pytest

from opscope.cli import main
from opscope.columns.schema import EventKind
from support.build_trace import allocation, build_trace, kernel, span, tensor

CONTROLS = (
    "\x1b[2J\x1b]0;title\x07 \x9b31m \u202egnp\u2069\u200b\u2028\x85 模 µ\r\nforged: line\x7f"
)
FORMULA = "=cmd|' /C calc'!A0"
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")

QUERY = "select name, -1 as number, '-2' as text, name as \"=x\x1b\" from named_events"
FORMATS = [
    ("summary", "--format=table"),
    ("summary", "--format=md"),
    ("summary", "--format=csv"),
    ("summary", "--format=json"),
    ("summary", "--group-by-shape"),
    ("why", "--all", "--format=table"),
    ("why", "--all", "--format=md"),
    ("why", "--all", "--format=json"),
    ("memory", "--format=table"),
    ("memory", "--format=json"),
    ("sql", QUERY, "--format=table"),
    ("sql", QUERY, "--format=csv"),
    ("sql", QUERY, "--format=json"),
    ("sql", f"select {CONTROLS} from events"),
    ("summary", "--sort-by", CONTROLS),
    ("memory", "--device", CONTROLS),
]


@pytest.fixture
def hostile(tmp_path):
    """A trace in which everything that has a name is called by such names."""
    place = (f"/{CONTROLS}.py", 3, CONTROLS)
    spans = [span(CONTROLS, 0, 900, CONTROLS, kind=EventKind.PYTHON_CALL, frame=place)]
    for i in range(20):
        inputs = {"inputs": [tensor(2, 3), CONTROLS]}
        spans += [
            span(FORMULA, 10 + i * 20, 15 + i * 20, CONTROLS, **inputs),
            span(CONTROLS, 16 + i * 20, 20 + i * 20, CONTROLS, kind=EventKind.MODULE_CALL,
                 module=CONTROLS),
            span(CONTROLS, 21 + i * 20, 25 + i * 20, CONTROLS, **inputs),
        ]  # fmt: skip
    spans.append(span(f"gc{CONTROLS}", 500, 900, CONTROLS, kind=EventKind.GC_PAUSE))
    folder = tmp_path / f"{CONTROLS.replace('/', '')}.opscope"
    build_trace(
        spans,
        allocations=[allocation(12, 4096, CONTROLS)],
        gpu=[kernel(CONTROLS, 600, 700)],
        ledger={CONTROLS: {f"dropped: {CONTROLS}": 2}},
    ).save(folder)
    return folder


@pytest.mark.parametrize("arguments", FORMATS, ids=lambda a: repr(" ".join(a)[:40]))
def test_nothing_is_obeyed_by_a_terminal(command_line, hostile, arguments):
    command, *options = arguments
    outcome = command_line(command, hostile, *options)
    assert "Traceback" not in outcome.err
    said = outcome.out + outcome.err
    assert said.strip()
    assert not OBEYED.search(said)
    # An error may quote several lines, such as a query's.
    assert outcome.code or not re.search("^forged", said, re.MULTILINE)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
@pytest.mark.parametrize("arguments", FORMATS[:-3], ids=lambda a: repr(" ".join(a)[:40]))
def test_every_stream_can_be_written_to(hostile, monkeypatch, encoding, arguments):
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    err = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    command, *options = arguments
    main([command, str(hostile), *options])
    out.flush()
    assert out.buffer.getvalue()


def test_a_width_is_that_of_what_is_shown(command_line, hostile, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = command_line("summary", hostile).out.splitlines()
    assert any(r"\x1b[2J" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_csv_has_no_formula_and_numbers_stay_numbers(command_line, hostile, tmp_path):
    rows = list(csv.reader(io.StringIO(command_line("sql", hostile, QUERY).out)))
    assert rows[0] == ["name", "number", "text", r"'=x\x1b"]
    assert {tuple(row[1:3]) for row in rows[1:]} == {("-1", "-2")}
    assert "'" + FORMULA in {row[0] for row in rows}
    averages = list(
        csv.DictReader(io.StringIO(command_line("summary", hostile, "--format=csv").out))
    )
    assert "'" + FORMULA in {row["name"] for row in averages}
    assert all(row["calls"].isdigit() for row in averages)
    assert command_line("export", hostile, "-o", tmp_path / "a.csv").code == 0
    text = (tmp_path / "a.csv").read_text()
    assert "\n'=cmd" in text and "\n=cmd" not in text


def test_json_keeps_the_true_name(command_line, hostile):
    rows = json.loads(command_line("summary", hostile, "--format=json").out)["rows"]
    assert {CONTROLS, FORMULA} <= {row["name"] for row in rows}
    lines = command_line("sql", hostile, QUERY, "--format=json").out.splitlines()
    assert FORMULA in {json.loads(line)["name"] for line in lines}


def test_tables_and_texts_of_the_interface(hostile):
    import opscope
    from opscope.torch_api.event_list.event_list import make_event_list

    trace = opscope.load(hostile)
    events = make_event_list(trace, use_device=None, profile_memory=True)
    averages = events.key_averages()
    texts = [events.table(), averages.table(), str(averages), repr(events[0]), repr(averages[0])]
    texts += [repr(node) for node in trace.tree().depth_first()]
    for text in [*texts, trace._repr_html_(), averages._repr_html_()]:
        assert not OBEYED.search(text)
        assert not re.search("^forged", text, re.MULTILINE)
