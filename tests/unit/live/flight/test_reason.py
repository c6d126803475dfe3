"""Why a dump was made, in words."""

import json
from pathlib import Path

from opscope.live.flight.reason import Reason
from opscope.live.flight.write_dump import place_of


def test_what_the_native_watch_saw():
    assert str(Reason.of_news("signal", 12)) == "signal (SIGUSR2)"
    assert str(Reason.of_news("standstill", 2_500_000_000)) == "hang (no step or event for 2.5 s)"
    assert Reason.of_news("memory", 3 << 20).detail == "3 MiB more are resident"
    assert json.loads(Reason("asked for", "x", 5).said()) == {
        "kind": "asked for",
        "detail": "x",
        "time_ns": 5,
    }


def test_a_part_of_a_file_name():
    assert Reason("Loss is NaN / ../../x").slug == "loss-is-nan-x"
    assert Reason("Ä").slug == "dump"


def test_names_of_dumps_are_in_order_of_time():
    reason = Reason("signal", "", 10**18)
    places = [place_of(Path(f"d/.dump-7-{number}"), reason, 7).name for number in (2, 9, 10, 123)]
    assert places == sorted(places)
    assert places[0].startswith("20010909T014640-7-0002-signal")
