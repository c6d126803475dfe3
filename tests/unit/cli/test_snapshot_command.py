import json

import pytest

from support.memory_snapshots import known_memory, made_snapshot, write_snapshot


@pytest.fixture
def path(tmp_path):
    snapshot, protocol = made_snapshot("begins in the middle", 0)
    write_snapshot(tmp_path / "snapshot.pickle", snapshot, protocol)
    return tmp_path / "snapshot.pickle", known_memory("begins in the middle", 0)


def test_a_snapshot_is_shown(command_line, path):
    file, plain = path
    shown = command_line("memory", file)
    assert shown.code == 0, shown.err
    assert "in use on cuda:0 at its peak" in shown.out
    assert "/home/train.py:1 in step" in shown.out and "reserved then" in shown.out
    content = json.loads(command_line("memory", file, "--format", "json").out)
    assert content["peak_bytes"] == plain["peak"]
    assert "before_bytes" in command_line("memory", file, "--format", "csv").out.splitlines()[0]


def test_other_pickles_and_devices_are_refused(command_line, path, tmp_path):
    assert command_line("memory", path[0], "--device", "cpu").code == 2
    (tmp_path / "other.pickle").write_bytes(b"\x80\x04cos\nsystem\n.")
    refused = command_line("memory", tmp_path / "other.pickle")
    assert refused.code == 1 and "more than plain data" in refused.err
