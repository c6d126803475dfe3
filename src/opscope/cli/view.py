"""Show a trace of any length in the browser.

The page is that of `opscope report`. A server on this machine reads only the part of the trace that
the window shows, so a recording of a hundred million spans opens as fast as a short one. The server
accepts requests only at the printed address, and ends when the page is closed or at Ctrl-C.

For a folder with several processes it shows the ranks chosen with --rank. Two traces share one
timeline, and a tab lists what differs. TRACE may also be a memory snapshot of torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import tempfile
import webbrowser
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from opscope.analysis.diff.step_costs import Side
from opscope.base.arrow import pa
from opscope.cli.parser import Parser, example, whole_number
from opscope.cli.report import page_of_several, page_stem
from opscope.cli.session.termination import on_interrupt
from opscope.cli.trace_argument import (
    Chosen,
    add_trace,
    choose_trace,
    load_chosen,
    long_trace,
    open_traces,
    stretch_of,
)
from opscope.cli.views.console import Messages
from opscope.cli.views.snapshot import is_snapshot
from opscope.columns.names import Names
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.export.perfetto import write_perfetto
from opscope.report.kept_windows import windows_of
from opscope.report.live_page import LivePage, windowed_page
from opscope.report.page import report_html, snapshot_html
from opscope.report.server import FileServer, PageServer, tunnel
from opscope.report.two_traces import two_long_traces, two_traces
from opscope.storage.long_trace import LongTrace
from opscope.storage.snapshot import read_snapshot
from opscope.storage.sql import query
from opscope.storage.sql_on_disk import query_long

_NO_TRACE = TraceData({}, Names.from_strings([]))

MOST_ON_PAGE = 1_000_000
"""Maximum number of events on a page; for longer traces it has a window."""


def options(parser: Parser) -> None:
    """Add the options."""
    add_trace(parser)
    parser.add_argument(
        "other",
        nargs="?",
        type=Path,
        metavar="OTHER",
        help="A second trace, of a newer version: shown below the first, with what differs.",
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=whole_number(1),
        default=0,
        help="Port to listen on. [default: a free port]",
    )
    parser.add_argument(
        "--no-open", action="store_true", help="Print the address; do not open a browser."
    )
    parser.add_argument("--title", metavar="TEXT", default="", help="Title of the page.")
    parser.add_argument(
        "--perfetto",
        action="store_true",
        help="Open the trace in https://ui.perfetto.dev instead, which reads it in your browser "
        "without an upload.",
    )
    parser.epilog = example(
        "opscope view train.opscope --no-open --port 8700", "opscope view old.opscope new.opscope"
    )


def main(args: Namespace) -> None:
    """Serve the page until it is closed."""
    messages = Messages()
    if args.trace is not None and is_snapshot(args.trace):
        with on_interrupt(signal.SIG_DFL):
            page = _page_of_snapshot(args, messages)
        return _serve(page, args, messages)
    chosen = choose_trace(args)
    if args.perfetto and args.other is not None:
        raise UsageError(f"--perfetto shows one trace. Remove {args.other}.")
    if args.perfetto:  # the entire trace: a period is for verdicts, which Perfetto does not show
        return _serve_to_perfetto(args, replace(chosen, period=None), messages)
    with on_interrupt(signal.SIG_DFL):
        page = _page(chosen, args, messages)
    _serve(page, args, messages)


def _serve(page: LivePage, args: Namespace, messages: Messages) -> None:
    _give_memory_back()
    server = PageServer(page, args.port)
    messages.say(f"open {server.address}")
    if "SSH_CONNECTION" in os.environ:
        messages.say(f"from another machine, first run `{tunnel(server.port)}`")
    messages.say("closing the page or Ctrl-C ends this command")
    with on_interrupt(server.close):
        _open(server.address, args)
        server.serve()


def _give_memory_back() -> None:
    """Return what building the page used, and later what queries use, to the system.

    For 100 million events: 0.4 GB after the page, 0.9 GB that Arrow's pool keeps after a query.
    """
    gc.collect()
    pa.set_memory_pool(pa.system_memory_pool())
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:  # glibc's
        trim(0)


def _page(chosen: Chosen, args: Namespace, messages: Messages) -> LivePage:
    title, period = args.title, args.period
    if args.other is not None:
        return _page_of_two(chosen, args, messages)
    if chosen.is_of_several:
        html = page_of_several(chosen, title, period, messages, is_served=True)
        return LivePage(lambda: html, lambda statement: chosen.job.sql(statement, True))
    long = long_trace(chosen, MOST_ON_PAGE)
    if long is None:
        trace = load_chosen(chosen)
        with messages.progress("building the page"):
            html = report_html(trace, title=title, period=period, is_served=True)
        return LivePage(lambda: html, lambda statement: query(trace, statement, True))
    with messages.progress(f"reading {chosen.path}"):
        windows = windows_of(long)
    with messages.progress("building the page"):
        part = stretch_of(long, MOST_ON_PAGE) or load_chosen(chosen)
        html, start_ns = windowed_page(windows, part, long.rows, title, period)
    return LivePage(
        lambda: html, lambda statement: query_long(long, statement, True), windows, start_ns
    )


def _page_of_snapshot(args: Namespace, messages: Messages) -> LivePage:
    with messages.progress(f"reading {args.trace}"):
        html = snapshot_html(read_snapshot(args.trace), args.title or args.trace.name, True)
    return LivePage(lambda: html, lambda statement: query(_NO_TRACE, statement, True))


def _page_of_two(chosen: Chosen, args: Namespace, messages: Messages) -> LivePage:
    other = choose_trace(Namespace(**{**vars(args), "trace": args.other}))
    names = [page_stem(chosen.path), page_stem(other.path)]
    if names[0] == names[1]:
        names = [str(chosen.path), str(other.path)]
    pair = chosen, other
    if any(long_trace(one, MOST_ON_PAGE) for one in pair):
        long = [trace for one in pair if (trace := long_trace(one, 0)) is not None]
        if len(long) == len(pair):
            return _page_of_two_long(long, pair, names, args, messages)
    a, b = (Side((name,), (load_chosen(one),)) for name, one in zip(names, pair, strict=True))
    with messages.progress("comparing"):
        html = two_traces(a, b, args.title, args.period)
    new = b.traces[0]
    return LivePage(lambda: html, lambda statement: query(new, statement, True))


def _page_of_two_long(
    long: list[LongTrace],
    chosen: tuple[Chosen, Chosen],
    names: list[str],
    args: Namespace,
    messages: Messages,
) -> LivePage:
    old, new = long
    with messages.progress("comparing"):
        a, b = (
            Side((name,), (stretch_of(trace, MOST_ON_PAGE) or load_chosen(one),))
            for name, trace, one in zip(names, long, chosen, strict=True)
        )
        page = two_long_traces(old, new, (a, b), args.title, args.period)
    html, windows, start_ns = page
    return LivePage(
        lambda: html, lambda statement: query_long(new, statement, True), windows, start_ns
    )


def _open(address: str, args: Namespace) -> None:
    has_screen = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if has_screen and not args.no_open:
        webbrowser.open(address)


def _serve_to_perfetto(args: Namespace, chosen: Chosen, messages: Messages) -> None:
    trace = open_traces(chosen)
    with tempfile.TemporaryDirectory(prefix="opscope-") as folder:
        file = Path(folder) / f"{page_stem(chosen.path)}.pftrace"
        with messages.progress("writing Perfetto's format"):
            write_perfetto(trace, file)
        server = FileServer(file)
        messages.say(f"open {server.address}")
        if "SSH_CONNECTION" in os.environ:
            messages.say(f"from another machine, first run `{tunnel(server.port)}`")
        messages.say("ends when Perfetto has read the trace, or at Ctrl-C")
        _open(server.address, args)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve()
