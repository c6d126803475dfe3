"""How far long work is: told while it goes on, to whoever listens."""

from __future__ import annotations

import io
import sys

import pytest

import opscope
from opscope.base.progress import listening, report_progress
from opscope.cli.views.console import Messages
from opscope.export import execution_trace_nodes, perfetto
from opscope.export.chrome import writer as chrome_writer
from opscope.export.chrome.writer import write_chrome_trace
from opscope.export.execution_trace import write_execution_trace
from opscope.export.perfetto import write_perfetto
from opscope.export.speedscope import write_speedscope
from opscope.report.page import report_html
from opscope.storage.chrome import native_columns
from support.build_trace import allocation, build_trace, kernel, span, tensor

SMALL = 1000


@pytest.fixture
def trace():
    return build_trace(
        [
            span(f"aten::op{i}", i * 10, i * 10 + 5, "ab"[i % 2], inputs=[tensor(i)])
            for i in range(200)
        ],
        allocations=[allocation(i, 64, address=i + 1) for i in range(50)],
        gpu=[kernel("gemm", i * 10 + 2, i * 10 + 9, launch=i) for i in range(50)],
    )


def shares_of(work):
    heard = []
    with listening(heard.append):
        work()
    return heard


@pytest.mark.parametrize(
    ("module", "write"),
    [
        (chrome_writer, write_chrome_trace),
        (perfetto, write_perfetto),
        (execution_trace_nodes, write_execution_trace),
    ],
)
def test_native_writers_tell_between_blocks(trace, tmp_path, monkeypatch, module, write):
    monkeypatch.setattr(module, "BLOCK_BYTES", SMALL)
    heard = shares_of(lambda: write(trace, tmp_path / "out"))
    assert len(heard) > 3
    assert heard == sorted(heard)
    assert heard[0] < 0.5
    assert heard[-1] == 1.0


def test_other_writers_and_the_report_tell_too(trace, tmp_path):
    assert shares_of(lambda: write_speedscope(trace, tmp_path / "s.json"))[-1] == 1.0
    heard = shares_of(lambda: report_html(trace))
    assert heard == sorted(heard)
    assert (heard[0], heard[-1]) == (1 / 12, 11 / 12)


def test_readers_tell_how_far_they_are(trace, tmp_path, monkeypatch):
    # GIVEN a trace in every form that can be read
    monkeypatch.setattr(native_columns, "PIECE_BYTES", SMALL)
    write_chrome_trace(trace, tmp_path / "chrome.json.gz")
    write_chrome_trace(trace, tmp_path / "chrome.json")
    trace.save(tmp_path / "trace.opscope")

    for name in ("chrome.json", "chrome.json.gz", "trace.opscope"):
        heard = shares_of(lambda name=name: opscope.load(tmp_path / name))
        assert len(heard) > 2, name
        assert heard == sorted(heard), name
        assert 0.5 < heard[-1] <= 1.0, name
        # A compressed file this small is read in one go.
        assert heard[0] < 0.5 or name.endswith(".gz")


def test_no_listener_is_needed_and_nothing_divides_by_zero():
    report_progress(1, 2)
    heard = shares_of(
        lambda: (
            report_progress(1, 0),
            report_progress(3, 2),
            report_progress(-1, 2),
            report_progress(1, 4),
        )
    )
    assert heard == [1.0, 0.0, 0.25]
    report_progress(1, 2)
    assert len(heard) == 3


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("animated", [True, False])
def test_a_terminal_shows_the_share_and_obeys_nothing(monkeypatch, animated):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with Messages(animated=animated).progress("writing x.json \x1b[2J\x1b]0;title\x07"):
        report_progress(2, 5)
    shown = sys.stderr.getvalue()
    assert "writing x.json" in shown
    assert "40%" in shown
    assert "\x1b[2J" not in shown and "\x1b]0;" not in shown
