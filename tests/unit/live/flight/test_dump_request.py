"""Why a dump is made, in words, and how many there may be."""

import json
from pathlib import Path

from opscope.live.flight.dump_request import DumpLimits, Reason, disk_bytes
from opscope.live.flight.write_dump import place_of


def test_what_the_native_watch_saw():
    assert str(Reason.of_news("signal", 12)) == "signal (SIGUSR2)"
    assert str(Reason.of_news("standstill", 2_500_000_000)) == "hang (no step or event for 2.5 s)"
    assert Reason.of_news("memory", 3 << 20).detail == "3 MiB more are resident"
    assert json.loads(Reason("request", "x", 5).as_json()) == {
        "kind": "request",
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


HOUR_NS = 3_600_000_000_000


def test_one_kind_may_not_dump_twice_in_the_interval(tmp_path):
    limits = DumpLimits(tmp_path, HOUR_NS, 1 << 30)
    assert limits.refusal("slow step", False) == ""
    assert "the limit is" in limits.refusal("slow step", False)
    assert "the limit is" in limits.refusal("slow step", False)
    assert limits.refusal("hang", False) == ""
    assert list(limits.refused.values()) == [2]


def test_dumps_fill_no_more_of_the_disk(tmp_path):
    folder = tmp_path / "a.opscope" / "rank=00000"
    folder.mkdir(parents=True)
    (folder / "events.parquet").write_bytes(bytes(3 << 20))
    (tmp_path / ".dump-1-1").mkdir()
    (tmp_path / ".dump-1-1" / "log").write_bytes(bytes(1 << 20))
    (tmp_path / "of the program's own").write_bytes(bytes(1 << 20))
    assert disk_bytes(tmp_path) == 4 << 20
    assert DumpLimits(tmp_path, 1, 5 << 20).refusal("hang", True) == ""
    assert "dumps fill 4 MiB" in DumpLimits(tmp_path, 1, 4 << 20).refusal("hang", True)
