"""``opscope memory``: the peak as tables and as JSON."""

import csv
import json

import pytest

from support.build_trace import allocation, build_trace, span
from support.memory_snapshots import known_memory, made_snapshot, write_snapshot


def test_the_table_names_what_was_in_use(command_line, trace_folder):
    outcome = command_line("memory", trace_folder)

    assert outcome.code == 0
    assert outcome.out.startswith("4.00 KiB in use on cpu at its peak\n")
    assert "step  " in outcome.out


def test_rows_can_be_limited(command_line, tmp_path):
    build_trace(
        [span(f"aten::op{i}", 10 * i, 10 * i + 9) for i in range(5)],
        allocations=[allocation(10 * i + 1, 100 - i, address=0x10 + i) for i in range(5)],
    ).save(tmp_path / "five.opscope")
    out = command_line("memory", tmp_path / "five.opscope", "--row-limit", "2").out
    assert "aten::op1" in out and "aten::op2" not in out and "(3 more)" in out


def test_json_and_csv_have_sizes_in_bytes(command_line, trace_folder):
    outcome = command_line("memory", trace_folder, "--format", "json")

    content = json.loads(outcome.out)
    assert (content["device"], content["total_bytes"]) == ("cpu", 4096)
    assert content["by_operator"] == [
        {"name": "step", "size_bytes": 4096, "blocks": 1, "before_bytes": 0}
    ]
    out = command_line("memory", trace_folder, "--format", "csv").out
    rows = list(csv.DictReader(out.splitlines()))
    assert {row["by"] for row in rows} == {"category", "module", "operator", "stack", "line"}
    assert {row["size_bytes"] for row in rows} == {"4096"}
    assert "| category | size |" in command_line("memory", trace_folder, "--format", "md").out


def test_a_device_can_be_chosen(command_line, tmp_path):
    build_trace(
        [span("aten::mm", 0, 10)],
        allocations=[
            allocation(1, 64, address=0x10),
            allocation(2, 32, address=0x20, device_type=1, device_index=0),
        ],
    ).save(tmp_path / "two.opscope")

    totals = [
        json.loads(command_line("memory", tmp_path / "two.opscope", "--format=json", *device).out)
        for device in ([], ["--device", "cpu"])
    ]

    assert [total["total_bytes"] for total in totals] == [32, 64]


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
