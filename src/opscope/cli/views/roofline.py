"""``opscope summary --roofline``: speed of operators against the peak of the machine."""

from __future__ import annotations

from opscope.analysis.roofline.peaks import Peaks, measured_peaks
from opscope.analysis.roofline.roofline import Roofline, RooflineRow, find_roofline
from opscope.base.quantity_text import share_text, time_text
from opscope.cli.trace_argument import Chosen
from opscope.cli.views.console import Messages
from opscope.cli.views.results import Result, Section, limited
from opscope.cli.views.side_by_side import answer
from opscope.columns.trace_data import TraceData
from opscope.timeline.period import Which

_HEADINGS = ("Operator", "Calls", "Time", "FLOP/s", "Bytes/s", "Reached", "Lost", "Bound by")
_CSV_HEADINGS = (
    "operator", "calls", "time_ns", "flops", "moved_bytes", "reachable_ns", "bound", "share",
    "lost_ns",
)  # fmt: skip
_MOST_ROWS = 15
_BUSY = (
    "; it was busy during the measurement, so its peak may be higher; this measurement is not "
    "stored"
)
_RATES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def roofline(chosen: Chosen, period: Which, row_limit: int | None, measure: bool) -> Result:
    """Achieved speed of operators; ``measure``: measure the peaks of this machine again."""
    peaks: Peaks | None = None
    most = _MOST_ROWS if row_limit is None else row_limit
    if measure:
        with Messages().progress("measuring this machine"):
            measured_peaks(again=True)

    def find(trace: TraceData) -> Roofline:
        nonlocal peaks
        model = find_roofline(trace, which=period, known=peaks)
        peaks = model.peaks
        return model

    return answer(chosen, "comparing with this machine", find, lambda model: _result(model, most))


def _result(model: Roofline, row_limit: int) -> Result:
    content = model.as_dict()
    rows, left_out = limited(model.rows, row_limit)
    coverage_text = (
        f"known of {share_text(model.coverage)} of the operators' time; other operators have no "
        "formula"
    )
    return Result(
        sections=[Section(columns=_HEADINGS, rows=list(map(_cells, rows)))],
        content=content,
        columns=_CSV_HEADINGS,
        rows=([row[name] for name in _CSV_HEADINGS] for row in content["rows"]),
        about=[*left_out, coverage_text],
        notes=[_machine(model.peaks), *model.notes],
        overview=[_overview(model)],
        shares={
            **({"reached": model.share} if model.covered_ns else {}),
            **({"known of operators' time": model.coverage} if model.operator_ns else {}),
        },
    )


def _overview(model: Roofline) -> dict[str, str]:
    worst = model.rows[0] if model.covered_ns else None
    coverage_text = share_text(model.coverage) if model.operator_ns else "--"
    return {
        "Most lost in": f"{worst.operator} {time_text(round(worst.lost_ns))}" if worst else "--",
        "Bound by": worst.bound.value if worst else "--",
        "Time": time_text(model.operator_ns),
        "Known": coverage_text,
        "Reached": share_text(model.share) if worst else "--",
        "Lost": time_text(round(model.lost_ns)) if worst else "--",
    }


def _cells(row: RooflineRow) -> tuple[str, ...]:
    seconds = max(row.time_ns, 1) / 1e9
    return (
        row.operator,
        f"{row.calls:,}",
        time_text(row.time_ns),
        _rate(row.flops / seconds) if row.flops else "--",
        _rate(row.moved_bytes / seconds),
        share_text(row.share),
        time_text(round(row.lost_ns)),
        row.bound.value,
    )


def _rate(per_second: float) -> str:
    for size, unit in _RATES:
        if per_second >= size:
            return f"{per_second / size:.3g} {unit}"
    return f"{per_second:.3g}"


def _machine(peaks: Peaks) -> str:
    products = ", ".join(f"{_rate(rate)}FLOP/s in {t}" for t, rate in peaks.flops_per_s.items())
    best = max(rate for _, rate in peaks.bytes_per_s)
    return (
        f"this machine ({peaks.machine}): {products or 'no matrix products measured'}; "
        f"{_rate(best)}B/s in caches, {_rate(peaks.bytes_per_s[-1][1])}B/s from memory"
        + (_BUSY if peaks.was_busy else "")
    )
