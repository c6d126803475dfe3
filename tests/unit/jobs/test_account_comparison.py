"""Of processes side by side, those that differ from the one in the middle are found."""

from __future__ import annotations

from opscope.jobs.account_comparison import ComparedShares, compare_shares_of
from opscope.storage.partition import Partition

RANKS = [Partition("rank", number) for number in range(5)]
STARTER = Partition("process", 4242)


def of(shares):
    return dict(zip(RANKS, shares, strict=False))


def test_what_is_above_or_below_the_middle_differs_largest_first():
    found = compare_shares_of({"busy": of([0.9, 0.91, 0.2, 0.9, 1.0])}, RANKS)
    assert found.compared == 5
    assert [(one.process, one.share, one.middle) for one in found.differing] == [
        (RANKS[2], 0.2, 0.9),
        (RANKS[4], 1.0, 0.9),
    ]
    assert found.differing[0].as_dict() == {
        "rank": 2, "what": "busy", "share": 0.2, "middle": 0.9, "compared": 5,
    }  # fmt: skip


def test_processes_of_another_kind_are_not_compared():
    shares = {**of([0.9, 0.9, 0.9]), STARTER: 0.0}
    assert compare_shares_of({"busy": shares}, RANKS) == ComparedShares(3, ())
    (one,) = compare_shares_of({"busy": shares}, [*RANKS, STARTER]).differing
    assert (one.process, one.compared) == (STARTER, 4)


def test_five_points_are_worth_saying():
    for share, differs in ((0.44, True), (0.46, False), (0.56, True)):
        found = compare_shares_of({"busy": of([0.5, 0.5, 0.5, share])}, RANKS)
        assert bool(found.differing) is differs
