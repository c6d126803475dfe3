"""Every command and view on recordings that lack most of what can be recorded.

Each either answers or refuses in words; nothing shows a time that nobody recorded.
"""

from __future__ import annotations

import json
import re

import pytest

import opscope
from opscope.columns.schema import EventKind
from opscope.errors import UsageError
from opscope.report.page import report_html
from support.build_trace import build_trace, span
from support.every_view import look_at_everything
from support.processes import opscope_here

torch = pytest.importorskip("torch")

COMMANDS = (
    ["summary"],
    ["summary", "--period", "all", "--group-by-shape"],
    *(["summary", view] for view in ("--gpu", "--roofline", "--compiled")),
    *(["why"], ["why", "--all"], ["memory"], ["export", "--replay"]),
    *(["ranks"], ["ranks", "--collectives"], ["ranks", "--ask", "ranks"]),
    ["sql", "select name, duration_us from named_events"],
)
VIEWS = {"--gpu", "--roofline", "--compiled"}
FORMATS = ("table", "json", "md", "csv")
TIME = re.compile(r"\d ?(?:ns|µs|us|ms|s|min|h)\b")


def run(*arguments):
    """Exit code, output and messages of a command."""
    done = opscope_here(*arguments)
    return done.returncode, done.stdout, done.stderr


def asked(path):
    """Every command in every format, and what it said."""
    for command, *more in COMMANDS:
        for format in FORMATS if command == "summary" else ("table", "json"):
            arguments = [command, str(path), *more, "--format", format]
            code, output, messages = run(*arguments)
            said = output + messages
            assert code in (0, 1, 2), said
            assert "Traceback" not in said, said
            assert code == 0 or messages.strip(), f"{arguments} refuses without a word"
            if code == 0 and format == "json":
                for text in output.splitlines() if command == "sql" else [output]:
                    json.loads(text, parse_constant=pytest.fail)
            yield arguments, code, output, messages
    yield from (
        (["diff"], *run("diff", str(path), str(path))),
        (["report"], *run("report", str(path), "-o", f"{path}.html")),
    )


def chrome(*events):
    return json.dumps({"traceEvents": list(events)})


def whole(category, name, begin, took, thread=1, **args):
    return {
        "ph": "X", "cat": category, "name": name, "ts": begin, "dur": took, "pid": 1, "tid": thread,
        "args": args,
    }  # fmt: skip


def kernel(name, begin, took):
    return whole("kernel", name, begin, took, 7, device=0, stream=7, correlation=1)


ODD_FILES = {
    "no times": chrome(*(whole("cpu_op", name, 5, 0) for name in ("aten::mm", "aten::add"))),
    "kernels alone": chrome(kernel("sgemm", 5, 30), kernel("copy", 50, 10)),
    "annotations alone": chrome(
        whole("user_annotation", "forward", 5, 30), whole("user_annotation", "backward", 40, 30)
    ),
    "Python calls alone": chrome(
        whole("python_function", "train.py(1): main", 5, 30, **{"Python id": 1}),
        whole("python_function", "train.py(7): step", 10, 10, **{"Python id": 2}),
    ),
    "nothing in main": chrome(
        whole("cpu_op", "aten::mm", 5, 30, 8), whole("cpu_op", "aten::add", 15, 30, 9)
    ),
}


@pytest.fixture(params=[*ODD_FILES, "no event", "collections alone"])
def odd(request, tmp_path):
    path = tmp_path / "odd.json"
    if request.param in ODD_FILES:
        path.write_text(ODD_FILES[request.param])
    else:
        kinds = {"no event": [], "collections alone": [span("gc", 0, 9, kind=EventKind.GC_PAUSE)]}
        path = tmp_path / "odd.opscope"
        build_trace(kinds[request.param]).save(path)
    return path


def test_every_command_answers_or_refuses_in_words(odd, tmp_path):
    trace = opscope.load(odd)
    for arguments, code, output, messages in asked(odd):
        if trace.has_times or arguments[0] in ("export", "ranks"):
            continue
        assert not TIME.search(output), (arguments, output)
        is_table = arguments[0] == "summary" and not {*arguments} & VIEWS
        if code == 0 and is_table:
            assert "no times were recorded" in output + messages
        if arguments[0] in ("why", "diff", "report") or {*arguments} & VIEWS:
            assert code == UsageError.exit_code and "no times were recorded" in messages
    if trace.has_times and len(trace.events):
        assert (trace.account("all").time_ns >= 0).all()
    look_at_everything(odd, tmp_path)


def test_a_summary_without_times_counts(tmp_path):
    path = tmp_path / "untimed.json"
    path.write_text(ODD_FILES["no times"])
    code, output, _ = run("summary", str(path), "--format", "json")
    content = json.loads(output)
    assert code == 0 and content["period"]["wall_ns"] is None
    rows = {row["name"]: row for row in content["rows"]}
    assert rows["aten::mm"]["calls"] == 1
    assert rows["aten::mm"]["cpu_self_ns"] is None
    assert not content["findings"]
    trace = opscope.load(path)
    assert not trace.has_times and "without times" in repr(trace)
    html = trace._repr_html_()
    assert "no times were recorded" in html and not TIME.search(re.sub("<[^>]*>", " ", html))


def test_losses_are_reported_by_every_command(tmp_path):
    trace = build_trace(
        "aten::mm 0..10\naten::add 10..30", ledger={"events": {"dropped: memory budget": 7.0}}
    )
    trace.save(tmp_path / "lost.opscope")
    lost = trace.ledger.lost()
    assert lost
    for command in (["summary"], ["why"], ["why", "--all"], ["summary", "--gpu"]):
        for format in FORMATS:
            path = str(tmp_path / "lost.opscope")
            code, output, messages = run(*command, path, "--format", format)
            assert code == 0 and f"DROPPED: {lost:,.0f}" in output + messages
    for format in ("table", "json", "md"):
        code, output, messages = run("diff", path, path, "--format", format)
        assert code == 0 and "DROPPED" in output + messages
    assert f"DROPPED: {lost:,.0f}" in trace.account().about
    assert f"DROPPED: {lost:,.0f}" in report_html(trace)
