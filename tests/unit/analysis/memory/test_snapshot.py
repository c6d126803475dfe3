"""Memory snapshots have what is known of them; a pickle that is more than data is refused."""

import datetime
import json
import os
import pickle
import random
import struct
import zlib

import pytest

from opscope.analysis.memory.snapshot import snapshot_memory
from opscope.errors import OpscopeError, TraceFormatError, UsageError
from opscope.storage.snapshot import read_snapshot
from support.memory_snapshots import KINDS, known_memory, made_snapshot, write_snapshot


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_it_says_what_is_known(tmp_path, kind, seed):
    snapshot, protocol = made_snapshot(kind, seed)
    write_snapshot(tmp_path / "s.pickle", snapshot, protocol)
    read = read_snapshot(tmp_path / "s.pickle")
    assert len(read.devices) == (3 if kind == "several devices" else 1)
    for one in read.devices:
        found = snapshot_memory(read, f"cuda:{one.index}")
        known = known_memory(kind, seed, one.index)
        assert found.peak_bytes == known["peak"]
        assert found.before_bytes == known["before"]
        over_time = json.dumps(found.in_use_bytes.tolist()).encode()
        assert zlib.crc32(over_time) == known["over_time"]
        for groups, wanted in ((found.at_peak, "at_peak"), (found.at_end, "at_end")):
            lines = {group.name: [group.size_bytes, group.blocks] for group in groups}
            assert lines == known[wanted]
        assert found.reserved_bytes == 40 * (2 << 20)
        actions = [event["action"] for event in snapshot["device_traces"][one.index]]
        assert found.failed == actions.count("oom")
        assert max(point["bytes"] for point in found.timeline()) == known["largest"]


def test_the_fullest_device_is_shown(tmp_path):
    snapshot, protocol = made_snapshot("several devices", 1)
    write_snapshot(tmp_path / "s", snapshot, protocol)
    known = [known_memory("several devices", 1, index)["peak"] for index in range(3)]
    read = read_snapshot(tmp_path / "s")
    assert snapshot_memory(read).device == f"cuda:{known.index(max(known))}"
    with pytest.raises(UsageError, match="Choose from: cuda:0, cuda:1, cuda:2"):
        snapshot_memory(read, "cuda:9")


class Runs:
    def __reduce__(self):
        return os.system, ("touch ran",)


def hostile():
    plain = pickle.dumps(made_snapshot("plain", 0)[0])
    yield "code", pickle.dumps({"segments": [Runs()]})
    yield "object", pickle.dumps({"segments": datetime.date(2026, 1, 1)})
    yield "global", b"\x80\x04cos\nsystem\n."
    yield "old opcodes", b"(dp0\nS'segments'\np1\n(lp2\ns."
    yield "cut", plain[:-100]
    yield "nothing", b""
    yield "no end", plain[:-1]
    yield "list in itself", b"\x80\x04]\x94h\x00ah\x00a."
    yield "no containers", b"\x80\x04" + b"N" * (1 << 21) + b"."
    yield "marks", b"\x80\x04" + b"(" * (1 << 21) + b"."
    yield "lists", b"\x80\x04" + b"]0" * (1 << 20) + b"N."
    yield "memo", b"\x80\x04N" + b"\x94" * (1 << 20) + b"."
    yield "memo far away", b"\x80\x04Nr\xff\xff\xff\x7f."
    yield "text of 2**63", b"\x80\x04\x8d" + struct.pack("<Q", 1 << 63) + b"a."
    yield "keys one by one", b"\x80\x04}" + b"".join(
        b"\x8c\x04%04dNs" % number for number in range(9000)
    ) + b"."  # fmt: skip
    yield "no dictionary", pickle.dumps([1, 2])
    for name, key, value in (("size", "size", 1 << 62), ("block", "requested_size", (1 << 63) - 1)):
        snapshot, _ = made_snapshot("plain", 0)
        blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
        for row in (*snapshot["device_traces"][0], *blocks):
            row[key] = value
        yield f"{name} of 2**62", pickle.dumps(snapshot)
    yield "other contents", pickle.dumps({"segments": 5, "device_traces": "x"})


@pytest.mark.parametrize(("data"), [data for _, data in hostile()], ids=[n for n, _ in hostile()])
def test_what_is_hostile_is_refused(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.pickle").write_bytes(data)
    with pytest.raises(TraceFormatError):
        read_snapshot(tmp_path / "s.pickle")
    assert not (tmp_path / "ran").exists()


def test_times_never_go_back_and_devices_count_from_0(tmp_path):
    snapshot, protocol = made_snapshot("plain", 0)
    times = (-1, 5, 1 << 62, 7, -(1 << 62), 1 << 63)
    for number, event in enumerate(snapshot["device_traces"][0]):
        event["time_us"] = times[number % len(times)]
    for segment in snapshot["segments"]:
        segment["device"] = -1
    write_snapshot(tmp_path / "s", snapshot, protocol)
    found = snapshot_memory(read_snapshot(tmp_path / "s"))
    assert found.device == "cuda:0" and found.reserved_bytes == 40 * (2 << 20)
    assert found.time_us[0] == 0 and (found.time_us[1:] >= found.time_us[:-1]).all()


def test_damaged_ones_are_read_or_refused(tmp_path):
    snapshot, protocol = made_snapshot("plain", 3, events=60)
    whole, draw = pickle.dumps(snapshot, protocol), random.Random(5)
    outcomes = set()
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        (tmp_path / "s").write_bytes(data)
        try:
            snapshot_memory(read_snapshot(tmp_path / "s")).as_dict()
            outcomes.add("read")
        except OpscopeError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
