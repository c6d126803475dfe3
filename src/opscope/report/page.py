"""One HTML file that shows a trace, without network.

Text of the trace is data in the page, never markup: it is JSON in an inert element, and the page's
program writes it as text. A content security policy permits only that program.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Collection, Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opscope.analysis.memory.snapshot import SnapshotMemory, snapshot_memory
from opscope.base.reused_memory import reusing_memory
from opscope.columns.labels import device_title
from opscope.columns.names import Names
from opscope.columns.trace_data import TraceData
from opscope.errors import OpscopeError
from opscope.export.output_file import write_file
from opscope.findings.finding import Findings
from opscope.report.memory_section import MOST_STACKS, groups_json
from opscope.report.payload import gather
from opscope.storage.partition import Partition
from opscope.storage.snapshot import MemorySnapshot
from opscope.timeline.period import Which

if TYPE_CHECKING:
    from opscope.jobs.collectives import JobCollectives
    from opscope.jobs.slow_ranks import SlowRanks

_BUNDLE = Path(__file__).parent / "bundle"

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src {script_hash}; \
style-src {style_hash}; img-src data:;{connect} base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This report needs JavaScript, which is switched off.</noscript>
<div id="opscope"{served}></div>
<script type="application/json" id="opscope-report">{report}</script>
<script type="text/plain" id="opscope-columns">{columns}</script>
<script>{script}</script>
</body>
</html>
"""


@reusing_memory
def write_report(
    trace: TraceData,
    path: str | os.PathLike[str],
    *,
    title: str = "",
    period: Which | str = Which.STEADY,
) -> None:
    """Write the report of ``trace`` to ``path``; replaces a file once the page is complete.

    ``period``: period of tables and findings.

    Raises:
        UsageError: ``path`` cannot be written, or there is no such period.
    """
    write_file(path, [report_html(trace, title=title, period=period).encode("utf-8")])


def report_html(
    trace: TraceData,
    *,
    title: str = "",
    findings: Findings | None = None,
    period: Which | str = Which.STEADY,
    ranks: tuple[SlowRanks, JobCollectives] | None = None,
    on_timeline: Collection[Partition] = (),
    process: tuple[Partition, TraceData] | None = None,
    is_served: bool = False,
) -> str:
    """The page as text.

    Args:
        title: title; empty for the program's name.
        findings: findings to show; None: find them.
        period: period of tables and findings.
        ranks: comparison of the processes of a job, and their collectives.
        on_timeline: the processes in ``trace``, if it has several.
        process: the process for tables, findings and steps, and its trace.
        is_served: whether it may send requests to its server.

    Raises:
        UsageError: there is no such period.
    """
    data = gather(trace, title, findings, period, ranks, on_timeline, process)
    return page_of(*data, is_served)


def page_of(report: Mapping[str, Any], columns: str, is_served: bool = False) -> str:
    """The page with this data; if ``is_served``, it may send requests to its server."""
    script, style = bundled("report.js"), bundled("report.css")
    return _PAGE.format(
        title=escape(str(report["title"])),
        script_hash=policy_hash(script),
        style_hash=policy_hash(style),
        connect=" connect-src 'self';" * is_served,
        served=' data-served="true"' * is_served,
        script=script,
        style=style,
        report=_without_markup(json.dumps(report, ensure_ascii=False, separators=(",", ":"))),
        columns=columns,
    )


def _without_markup(text: str) -> str:
    """Escape JSON text that could end its HTML element; a parser reads the same JSON."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def policy_hash(text: str) -> str:
    """Hash that allows a script or style in a content security policy."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def bundled(name: str) -> str:
    """Text of a file that is built from ``web/``."""
    try:
        return (_BUNDLE / name).read_text(encoding="utf-8")
    except OSError as error:
        raise OpscopeError(
            f"The file {name} is missing in this installation of opscope. Install opscope "
            "again; in a checkout, run: npm --prefix web run build"
        ) from error


_NO_GROUPS: dict[str, list[Any]] = {
    by: [] for by in ("category", "operator", "module", "function", "phase")
}


def snapshot_html(snapshot: MemorySnapshot, title: str, is_served: bool = False) -> str:
    """The page as text; time 0 of a device is its first recorded allocation or free."""
    report, columns = gather(TraceData({}, Names.from_strings([])), title)
    names = [f"cuda:{one.index}" for one in snapshot.devices]
    memories = [snapshot_memory(snapshot, name) for name in names]
    report["memory"] = [_device(one) for one in memories]
    report["run"]["duration"] = max(int(1000 * one.time_us.max(initial=0)) for one in memories)
    report["period"]["to"] = max(report["run"]["duration"], 1)
    report["verdict"] = []
    return page_of(report, columns, is_served)


def _device(memory: SnapshotMemory) -> dict[str, Any]:
    points = memory.timeline()
    total = [point["bytes"] for point in points]
    is_known = memory.peak_event >= 0
    return {
        "device": device_title(memory.device),
        "time": [1000 * point["time_us"] for point in points],
        "total": total,
        "byCategory": None,
        "byPhase": {"names": ["in use"], "bytes": [total]},
        "uncategorised": "",
        "peakBytes": memory.peak_bytes,
        "peakTime": 1000 * int(memory.time_us[memory.peak_event]) if is_known else 0,
        "beforeBytes": memory.before_bytes,
        "groups": {
            **_NO_GROUPS,
            "line": groups_json(memory.at_peak),
            "end": groups_json(memory.at_end),
        },
        "stacks": groups_json(memory.stacks, MOST_STACKS),
        "blocks": [],
    }
