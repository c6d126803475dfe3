"""How many dumps there may be, and how large they may be together."""

from opscope.live.flight.limits import DumpLimits, disk_bytes

HOUR_NS = 3_600_000_000_000


def test_one_kind_may_not_dump_twice_in_the_interval(tmp_path):
    limits = DumpLimits(tmp_path, HOUR_NS, 1 << 30)
    assert limits.refusal("slow step", False) == ""
    assert "is the limit" in limits.refusal("slow step", False)
    assert "is the limit" in limits.refusal("slow step", False)
    assert limits.refusal("hang", False) == ""
    assert list(limits.refused.values()) == [2]


def test_what_is_called_for_has_no_interval(tmp_path):
    limits = DumpLimits(tmp_path, HOUR_NS, 1 << 30)
    assert [limits.refusal("asked for", True) for _ in range(3)] == ["", "", ""]


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


def test_a_folder_that_is_gone_fills_nothing(tmp_path):
    assert disk_bytes(tmp_path / "gone") == 0
