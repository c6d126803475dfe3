"""Looking at a part of a recording: --range and --steps."""

import pytest

from opscope.storage.partition import PROCESS, Partition
from opscope.storage.store import save_part
from support.build_trace import build_trace, span

_SECOND = 1_000_000


@pytest.fixture
def two_processes(tmp_path):
    """Each runs an operator of its own in the first second, and one of both in the third."""
    for number, name in ((11, "aten::mm"), (12, "aten::add")):
        spans = [span(name, 0, _SECOND), span("aten::relu", 2 * _SECOND, 3 * _SECOND)]
        save_part(build_trace(spans), tmp_path / "t", Partition(PROCESS, number))
    return str(tmp_path / "t")


def names(outcome):
    return [line.split(",")[0] for line in outcome.out.splitlines()[1:]]


def test_a_range_is_of_the_process_that_is_chosen(command_line, two_processes):
    command = ("summary", two_processes, "--format", "csv", "--process", "12")
    assert names(command_line(*command, "--range", "0..1.5")) == ["aten::add"]
    assert names(command_line(*command, "--range", "1.5..4")) == ["aten::relu"]


@pytest.mark.parametrize("command", ["summary", "report"])
def test_a_range_of_several_processes_asks_for_one(command_line, two_processes, command):
    outcome = command_line(command, two_processes, "--range", "0..1")
    assert outcome.code == 2
    assert outcome.complaint == (
        f"{two_processes} contains several processes: process 11, process 12. Choose one with "
        "--process."
    )


@pytest.mark.parametrize("text", ["5", "3..1", "a..b", "-1..2"])
def test_what_is_no_range_is_refused(command_line, two_processes, text):
    outcome = command_line("summary", two_processes, "--process", "11", f"--range={text}")
    assert outcome.code == 2
    assert "Give two numbers, the smaller first" in outcome.complaint


def test_a_range_and_steps_at_once_are_refused(command_line, two_processes):
    options = ("--process", "11", "--range", "0..1", "--steps", "1..2")
    outcome = command_line("summary", two_processes, *options)
    assert outcome.code == 2
    assert "Use only one" in outcome.complaint
