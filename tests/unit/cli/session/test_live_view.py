"""What is shown of a process that runs, and what its own texts cannot do to a terminal."""

import os

from rich.console import Console
from tests.support.build_trace import build_trace, span

from opscope.analysis.top_operators import DEFAULT_SORT, find_top_operators
from opscope.cli.attach import described
from opscope.cli.top import view_of
from opscope.timeline.period import Which, period_of

COMMAND = "python -c import this\nprint('\x1b]0;taken\x07')"
STATUS = {
    "process": os.getpid(),
    "command": COMMAND,
    "listening_since_ns": 0,
    "flight": [],
    "recording": False,
    "torch": "",
}


def shown_in(width):
    trace = build_trace([span("aten::add", 0, 10)]).with_metadata({"start_ns": 0, "end_ns": 10_000})
    top = find_top_operators(period_of(trace, Which.ALL), sort_by=DEFAULT_SORT, row_limit=5)
    console = Console(force_terminal=True, color_system=None, width=width)
    answer = {"steps": 0, "steps_ns": []}
    with console.capture() as shown:
        console.print(view_of(STATUS, trace, top, answer, console.width))
    return shown.get().splitlines()


def test_a_terminal_may_change_its_width_between_two_looks():
    widest = [max(map(len, shown_in(width))) for width in (60, 160)]
    assert widest[0] <= 60 < widest[1] <= 160


def test_a_command_of_several_lines_is_one_line_of_the_view_and_no_sequence_of_a_terminal():
    first, second = shown_in(120)[:2]
    assert first.endswith(r"python -c import this\nprint('\x1b]0;taken\x07')")
    assert second.startswith("0 steps; ")


def test_a_command_of_several_lines_is_one_row_of_the_list():
    assert described(STATUS)[-1] == r"python -c import this\nprint('\x1b]0;taken\x07')"
