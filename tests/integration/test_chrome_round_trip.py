"""A recording that went through a Chrome file answers what it answered before."""

import numpy as np
import pytest
import torch

import opscope
from opscope.analysis.flops import count_flops
from opscope.tree.event_tree import event_tree
from opscope.tree.self_time import self_times
from support.random_trace import assert_same_trace
from support.recorded import record

EVERYTHING = {
    "record_shapes": True,
    "profile_memory": True,
    "with_stack": True,
    "with_modules": True,
}


@pytest.fixture(scope="module")
def trace():
    """A program whose model, inputs and optimizer state are from before the recording."""
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    optimizer, x = torch.optim.Adam(model.parameters()), torch.randn(64, 16)

    def program():
        for _ in range(2):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
        x[:, None, [0, 1]]
        torch.vmap(torch.dot)(x, x)

    program()
    return record(program, **EVERYTHING)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_chrome_file_gives_back_everything_but_the_text_of_source_lines(trace, tmp_path, name):
    trace.export("chrome", tmp_path / name)

    again = opscope.load(tmp_path / name)

    lines = len(trace.table("source_lines"))
    assert lines > 0 == len(again.table("source_lines"))
    said = {"rows that the file was not given: source_lines": lines}
    assert again.ledger == {**trace.ledger, "import": said}
    kept = {name: trace.table(name) for name in ("source_lines", "ledger")}
    assert_same_trace(again.with_tables(kept), trace)


def test_what_is_said_of_it_is_the_same(trace, tmp_path):
    trace.export("chrome", tmp_path / "trace.json")

    again = opscope.load(tmp_path / "trace.json")

    before = trace.peak_memory()
    assert before.before_bytes > 0  # the test is about this
    assert again.peak_memory().to_dict()["by_category"] == before.to_dict()["by_category"]
    assert again.peak_memory().total_bytes == before.total_bytes
    assert np.array_equal(self_times(event_tree(again)), self_times(event_tree(trace)))
    assert np.array_equal(count_flops(again).flops, count_flops(trace).flops)


def test_rows_without_the_columns_are_read_as_those_of_any_tool(trace, tmp_path):
    trace.export("chrome", tmp_path / "trace.json")
    text = (tmp_path / "trace.json").read_text()
    begin, end = text.index('"opscope": {'), text.index('"traceName"')
    (tmp_path / "trace.json").write_text(text[:begin] + text[end:])

    again = opscope.load(tmp_path / "trace.json")

    assert len(again.events) == len(trace.events)
    assert len(again.table("parameters")) == 0
    assert again.metadata["imported_from"] == "trace.json"
