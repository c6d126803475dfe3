"""What a ledger says was lost."""

from opscope.columns.ledger import NEWER, Ledger

LEDGER = Ledger(
    {
        "events": {"requested": 9.0, "dropped: no room": 2.0, "dropped: its thread ended": 0.0},
        "frees": {"dropped: not heard": 3.0, "not dropped": 7.0},
        "recorder": {"cost_ns of one operator": 50.0},
    }
)


def test_losses_are_rows_that_begin_so_and_count_something():
    assert list(LEDGER.losses()) == [
        ("events", "dropped: no room", 2.0),
        ("frees", "dropped: not heard", 3.0),
    ]
    assert LEDGER.lost() == 5


def test_missing_is_what_was_lost_and_what_a_newer_opscope_knows_each_once():
    newer = {"dropped: allocations of action 9": 2.0, "shown as unknown: events of kind 77": 3.0}
    assert Ledger({**LEDGER, NEWER: newer}).missing() == 5 + 2 + 3
    assert LEDGER.missing() == 5 and Ledger().missing() == 0


def test_counts_that_cannot_be_make_nothing_missing_and_hide_nothing():
    odd = Ledger({"events": {"dropped: x": -5.0, "dropped: y": 5.0}, NEWER: {"left out: z": -1.0}})
    assert odd.missing() == odd.lost() == 5
