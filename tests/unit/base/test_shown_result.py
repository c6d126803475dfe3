from dataclasses import dataclass

from opscope.base.shown_result import MOST_ROWS, ShownResult


@dataclass(frozen=True)
class Part:
    name: str
    time_ns: float
    inside: tuple[int, ...] = ()


@dataclass(frozen=True)
class TimesOfParts(ShownResult):
    parts: tuple[Part, ...]
    before_ns: int
    saved_share: float
    peak_bytes: int | None
    counts: dict[str, int]
    notes: tuple[str, ...]
    unknown_ns: float = float("nan")


def test_fields_and_rows_are_tables_in_which_nothing_is_markup():
    parts = tuple(Part(f"<script>{i}", -1500.0) for i in range(MOST_ROWS + 2))
    shown = TimesOfParts(parts, 2_000_000, 0.25, None, {"calls_ns": 3}, ("slow <b>",))._repr_html_()
    assert shown.startswith("<div><p><b>opscope: times of parts</b>")
    for text in ("2.00 ms", "25%", "counts: calls", "3 ns", "slow &lt;b&gt;", "-1.50 µs"):
        assert text in shown, text
    assert "&lt;script&gt;11" in shown and "2 more rows" in shown
    assert "<script" not in shown and "inside" not in shown
