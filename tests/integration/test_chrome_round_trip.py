"""A recording that went through a Chrome file says what such a file cannot hold."""

import json

import torch

import opscope
from opscope.cli.views.completeness import describe_completeness
from opscope.columns.schema import TABLES
from support.recorded import record


def program():
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(64, 16)).pow(2).mean().backward()
    optimizer.step()


def test_what_has_no_place_in_a_chrome_file_is_reported_when_it_is_read(tmp_path):
    trace = record(program, record_shapes=True, profile_memory=True, with_stack=True)
    trace.export("chrome", tmp_path / "trace.json")

    again = opscope.load(tmp_path / "trace.json")

    assert len(again.events) == len(trace.events)
    gone = {
        f"rows that this format cannot hold: {name}": len(trace.table(name))
        for name in TABLES
        if len(trace.table(name)) and not len(again.table(name))
    }
    said = {w: n for w, n in again.ledger["import"].items() if w.startswith("rows that this")}
    assert gone == said
    assert "rows that this format cannot hold: parameters" in gone
    assert "parameters, " in describe_completeness(again)


def test_strange_values_in_that_place_are_passed_over(tmp_path):
    for value in (
        7,
        [],
        {"left out": 3},
        {"left out": {"x": 1, "tasks": -1, "frames": "a"}, "dropped": "b"},
    ):
        (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": [], "opscope": value}))
        assert set(opscope.load(tmp_path / "trace.json").ledger["import"]) == {"events in the file"}
