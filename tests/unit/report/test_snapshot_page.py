import pytest

from opscope.report.snapshot_page import snapshot_html
from opscope.storage.snapshot import read_snapshot
from support.memory_snapshots import KINDS, known_memory, made_snapshot, write_snapshot
from support.read_report import read_report


@pytest.mark.parametrize("kind", KINDS)
def test_the_memory_tab_has_every_device(tmp_path, kind):
    snapshot, protocol = made_snapshot(kind, 0)
    write_snapshot(tmp_path / "s.pickle", snapshot, protocol)
    report = read_report(snapshot_html(read_snapshot(tmp_path / "s.pickle"), "s")).data
    for index, device in enumerate(report["memory"]):
        assert device["device"] == f"CUDA {index}"
        assert device["peakBytes"] == known_memory(kind, 0, index)["peak"]
        assert max(device["total"]) <= device["peakBytes"]
        for groups in (device["stacks"], device["groups"]["line"]):
            assert sum(group["bytes"] for group in groups) == device["peakBytes"]
        assert 0 <= device["peakTime"] <= report["run"]["duration"]
