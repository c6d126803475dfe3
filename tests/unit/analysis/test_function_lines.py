"""The line of a function's own code that time passes at, between two calls."""

import os

import numpy as np
import pytest

from opscope.analysis.function_lines import gap_lines, keeping_line
from opscope.analysis.sites import Sites
from opscope.columns.codes import EventKind
from opscope.columns.names import Names
from opscope.columns.trace_data import TraceData
from opscope.timeline.listing import TorchListing
from support.build_trace import build_trace, span


def line_of_gap(tmp_path, source, *calls, took=1000):
    """What is named for the time between calls at lines: each is a line, and when it begins."""
    file = tmp_path / "train.py"
    file.write_text(source)
    own = {"frame": (str(file), 1, "f"), "caller": (str(file), 99, "<module>"), "line": 99}
    function = span("f", 0, took, kind=EventKind.PYTHON_CALL, **own)
    inside = [
        span("aten::add", at, at + 1, line=line, caller=(str(file), 1, "f")) for line, at in calls
    ]
    sites = Sites(TorchListing(build_trace([function, *inside])))
    is_call, tree = np.asarray(sites.defined_here), sites.listing.tree
    group = np.zeros(len(is_call), np.int32)
    return gap_lines(sites, (tree.start_ns, tree.duration_ns), is_call, group, [(str(file), 1)])[0]


ENDS_WITH_IT = """\
def f():
    a = torch.ones(3)
    if flag: raise ValueError("flag")
    time.sleep(0.1)
"""


def test_the_last_line_of_a_function_is_named(tmp_path):
    assert line_of_gap(tmp_path, ENDS_WITH_IT, (2, 0)) == 4


ROUND = """\
def f():
    for i in range(100):
        step()
        if i == 60: raise ValueError("boom")
        time.sleep(0.003)
"""


def test_the_last_line_of_a_round_is_named(tmp_path):
    assert line_of_gap(tmp_path, ROUND, (3, 0), (3, 400), (3, 999)) == 5


@pytest.mark.parametrize(
    ("between", "named"),
    [
        ("    slow()\n    b.mul(2)\n", 3),
        ("    if x: return other()\n    slow()\n    b.mul(2)\n", 4),
        ("    n = 3\n    b.mul(slow())\n", 4),
        ("    n = 3\n    b.mul(2)\n", 2),
        ("    n = c * d\n    b.mul(2)\n", 3),
        ("    slow()\n    for c in d: g(c)\n    b.mul(2)\n", 4),
        ("    r = os.pipe()\n    use(r)\n    b.mul(2)\n", 3),
        ("    try: raise E()\n    except E: slow()\n    b.mul(2)\n", 3),
        ("    for c in d:\n        b.mul(2)\n", 2),
        ("    for c in d():\n        b.mul(2)\n", 3),
        ("    with lock:\n        b.mul(2)\n", 3),
        ("    n = lambda: slow()\n    b.mul(2)\n", 2),
        ("    match n:\n        case 1: return g()\n        case _: slow()\n    b.mul(2)\n", 5),
    ],
)
def test_what_stands_between_two_calls(tmp_path, between, named):
    source = "def f():\n    a = torch.ones(3)\n" + between
    assert line_of_gap(tmp_path, source, (2, 0), (2 + between.count("\n"), 999)) == named


KEEPS = """\
def train():
    for x in data:
        loss = f(x)
        shown.append(loss.item())
        val, other = g(x), 1
        kept.append({"val": val})
        all.append(h(x))
        cache[x] = loss
        left = g(x)
"""


@pytest.mark.parametrize(("line", "kept_at"), [(3, 8), (5, 6), (7, 7), (9, -1)])
def test_what_a_line_assigns_is_kept_where_it_goes_into_a_list(tmp_path, line, kept_at):
    file = tmp_path / "train.py"
    file.write_text(KEEPS)
    assert keeping_line(build_trace([]), str(file), 1, line) == kept_at


@pytest.mark.parametrize(
    ("stores", "kept_at"),
    [
        ("self.seen[name].append(output)", 4),
        ("self.seen[name] = output", 4),
        ("local.append(output)", -1),
        ("self.seen.append(output.mean())", -1),
        ("self.seen.append((output.detach()[0], float(output)))", 4),
        ("self.seen.append(other)", -1),
    ],
)
def test_what_a_function_is_given_is_kept_where_it_outlives_the_call(tmp_path, stores, kept_at):
    file = tmp_path / "hooks.py"
    file.write_text(f"import torch\ndef record(module, output):\n    local = []\n    {stores}\n")
    assert keeping_line(build_trace([]), str(file), 2) == kept_at


@pytest.mark.parametrize("kind", ["pipe", "device", "changed"])
def test_a_source_that_is_not_what_was_recorded_is_not_used(tmp_path, kind):
    file = tmp_path / "train.py"
    os.mkfifo(file) if kind == "pipe" else file.write_text(KEEPS)
    name = "/dev/zero" if kind == "device" else str(file)
    told = {"file": [0], "line": [3], "text": ["loss = h(x)"]}
    trace = TraceData({"source_lines": told}, Names.from_strings([name]), {})
    assert keeping_line(trace, name, 1, 3) == -1
