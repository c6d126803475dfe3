"""The ranks of a job in a real page: who takes longest, and a thousand of them in one picture."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.columns.causes import Cause
from opscope.jobs.collectives import job_collectives
from opscope.jobs.rank_steps import NONE, RankSteps
from opscope.jobs.slow_ranks import find_slow_ranks
from opscope.storage.partition import Partition
from support.job_of_collectives import rank_trace


def compared(own_ns, waited_ns=0):
    causes = np.zeros((len(own_ns), len(Cause)), dtype=np.int64)
    causes[:, Cause.OPERATOR] = 3
    causes[:, Cause.COLLECTIVE] = 1
    table = np.zeros((*own_ns.shape, len(Cause)), dtype=np.int64)
    table[:, :, Cause.OPERATOR] = np.maximum(own_ns, 0)
    table[:, :, Cause.COLLECTIVE] = waited_ns
    steps = RankSteps(
        tuple(Partition("rank", number) for number in range(len(own_ns))),
        np.arange(own_ns.shape[1]),
        np.where(own_ns == NONE, NONE, own_ns + waited_ns),
        own_ns,
        table,
        causes,
        "",
    )
    return find_slow_ranks(steps), job_collectives([])


def pixel(report, picture, x, y):
    """The colour at a place of a canvas, in CSS pixels from its corner."""
    return report.page.evaluate(
        f"""(() => {{
        const canvas = document.querySelector({picture!r});
        const ratio = canvas.width / canvas.clientWidth;
        const copy = new OffscreenCanvas(canvas.width, canvas.height);
        const context = copy.getContext('2d', {{ willReadFrequently: true }});
        context.drawImage(canvas, 0, 0);
        return Array.from(context.getImageData({x} * ratio, {y} * ratio, 1, 1).data);
        }})()"""
    )


@pytest.fixture
def slow_rank():
    own_ns = np.full((3, 6), 100_000, dtype=np.int64)
    own_ns[1] = 210_000
    own_ns[2, 3] = NONE
    return compared(own_ns, waited_ns=50_000)


def test_who_takes_longest_is_reported_and_seen(opened, training, slow_rank):
    report = opened(training, ranks=slow_rank, on_timeline=[Partition("rank", 1)])
    report.open_tab("ranks")
    text = report.page.inner_text(".panel")
    assert slow_rank[0].sentences()[0] in text
    assert "rank 1 works 210 µs a step, the median of the others" in text
    assert "The timeline shows 1 of 3 processes" in text
    quiet, strong = (pixel(report, ".rank-picture", 130, y) for y in (10, 32))
    assert strong[0] - strong[2] > 40 > abs(quiet[0] - quiet[2])  # reds and oranges are slow
    assert pixel(report, ".rank-picture", 130 + 3 * 60, 54)[3] == 0  # has no such step


def test_a_place_in_the_picture_says_what_it_is(opened, training, slow_rank):
    report = opened(training, ranks=slow_rank)
    report.open_tab("ranks")
    report.page.hover(".rank-picture", position={"x": 130, "y": 32})
    shown = report.page.inner_text(".tooltip")
    assert "rank 1, step 0" in shown
    assert "Whole: 260 µs" in shown and "Own time: 210 µs" in shown
    report.page.hover(".rank-causes", position={"x": 200, "y": 32})
    assert "operators: 3.00 ns (75.0%)" in report.page.inner_text(".tooltip")


def test_whole_steps_can_be_seen_instead(opened, training, slow_rank):
    report = opened(training, ranks=slow_rank)
    report.open_tab("ranks")
    before = pixel(report, ".rank-picture", 130, 32)
    report.page.click("text=Whole step")
    report.settle()
    assert pixel(report, ".rank-picture", 130, 32) != before


def test_who_waited_for_whom_is_in_tables(opened, training, slow_rank):
    calls = [("barrier", (), at, at + 10, at + 40) for at in range(0, 500, 100)]
    parts = [Partition("rank", number) for number in range(2)]
    together = job_collectives((part, rank_trace(range(2), calls)) for part in parts)
    report = opened(training, ranks=(slow_rank[0], together))
    report.open_tab("ranks")
    kinds, waits = report.page.locator(".text-table").all_inner_texts()
    assert "barrier, 2 ranks\t5\t30.0 µs" in kinds and "rank 1\t5" in waits
    assert "All processes ran on one machine (here)" in report.page.inner_text(".panel")


def test_one_of_a_thousand_ranks_is_seen(opened, training):
    own_ns = np.full((1000, 300), 100_000, dtype=np.int64)
    own_ns[617] = 300_000
    report = opened(training, ranks=compared(own_ns))
    report.open_tab("ranks")
    assert "rank 617 works 300 µs a step" in report.page.inner_text(".panel")
    row = 617 // 3
    slow, beside = (pixel(report, ".rank-picture", 400, y) for y in (row, row - 4))
    assert slow != beside


def test_a_trace_of_one_process_has_no_ranks(opened, training):
    report = opened(training)
    assert report.page.locator("[data-tab=ranks]").count() == 0
