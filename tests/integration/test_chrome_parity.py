"""Our Chrome files against those torch.profiler writes of the same program."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="records a PyTorch program")

import opscope  # noqa: E402 (torch may be missing)
from opscope.export.chrome.writer import write_chrome_trace  # noqa: E402

OWN_IDS = ("External id", "Record function id", "Ev Idx")
TIMES = ("ts", "dur")


class Program:
    """A forward and a backward pass with lists, scalars, views, kwargs and an annotation."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16, 4)
        )
        self.x = torch.randn(2, 1, 4, 4)

    def run(self) -> None:
        fast = torch._C._profiler._RecordFunctionFast
        with torch.profiler.record_function("forward"):
            y = self.model(self.x)
        z = torch.cat([y, y.double()], 1)[:, ::2]
        z.clamp(min=-0.5).sum().backward()
        torch.einsum("ij,ij->i", z, z).any()
        with fast(
            "fast_add", [self.x, [self.x, y], 2.5], {"stream": 3, "grid": "g(1,)", "ok": True}
        ):
            torch.ones(64, 32, dtype=torch.bfloat16)


def rows(path: str | Path, *without: str) -> list[dict[str, Any]]:
    """The rows that say what happened, without some of their fields."""
    found = []
    for row in json.loads(Path(path).read_text())["traceEvents"]:
        if row["ph"] == "M" or row.get("cat", "Trace") == "Trace":
            continue
        args = {k: v for k, v in row.get("args", {}).items() if k not in OWN_IDS + without}
        found.append({**{k: v for k, v in row.items() if k not in without}, "args": args})
    return found


def counted(found: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in found)


@pytest.fixture(scope="module")
def torchs(tmp_path_factory):
    """torch.profiler's file."""
    program = Program()
    program.run()
    with torch.profiler.profile(record_shapes=True, profile_memory=True) as profiler:
        program.run()
    path = tmp_path_factory.mktemp("torch") / "trace.json"
    profiler.export_chrome_trace(str(path))
    return path


def older_fields(torchs: Path) -> tuple[str, ...]:
    """What is said of allocations alone; before torch 2.7 of nothing, there of everything."""
    said = {row["name"] for row in rows(torchs) if "finished" in row["args"]}
    return () if said == {"[memory]"} else ("finished",)


def test_a_file_of_torch_profiler_is_written_back_as_it_was(torchs, tmp_path):
    write_chrome_trace(opscope.load(torchs), tmp_path / "ours.json")

    older = older_fields(torchs)
    assert counted(rows(tmp_path / "ours.json", *older)) == counted(rows(torchs, *older))
    ours, its = (json.loads(Path(p).read_text()) for p in (tmp_path / "ours.json", torchs))
    assert {k: v for k, v in ours.items() if k not in ("traceEvents", "traceName")} == {
        k: v for k, v in its.items() if k not in ("traceEvents", "traceName")
    }
    assert [row["name"] for row in ours["traceEvents"][-4:]] == [
        row["name"] for row in its["traceEvents"][-4:]
    ]


def test_a_recording_says_what_torch_profilers_says(torchs, tmp_path):
    program = Program()
    program.run()
    with opscope.profile(record_shapes=True, profile_memory=True) as profiler:
        program.run()
    profiler.export_chrome_trace(tmp_path / "ours.json")

    for category in ("cpu_op", "user_annotation"):
        ours = in_order(rows(tmp_path / "ours.json", *TIMES), category)
        assert ours == in_order(rows(torchs, *TIMES, *older_fields(torchs)), category)
    arrows = [arrows_of(tmp_path / "ours.json"), arrows_of(torchs)]
    assert arrows[0] == arrows[1]
    assert len(arrows[0]) > 4
    sizes = [
        Counter(r["args"]["Bytes"] for r in rows(path) if r["name"] == "[memory]")
        for path in (tmp_path / "ours.json", torchs)
    ]
    assert sizes[0] == sizes[1]


def in_order(found: list[dict[str, Any]], category: str) -> list[dict[str, Any]]:
    """Rows of a category; sequence numbers go on from run to run, so they start at 0 here."""
    chosen = [row for row in found if row["cat"] == category]
    numbers = [r["args"]["Sequence number"] for r in chosen if "Sequence number" in r["args"]]
    for row in chosen:
        if "Sequence number" in row["args"]:
            row["args"]["Sequence number"] -= min(numbers)
    return chosen


def arrows_of(path: str | Path) -> list[tuple[str, str]]:
    """Names at both ends of every forward-backward arrow, in order of its number."""
    document = json.loads(Path(path).read_text())["traceEvents"]
    at = {(r["tid"], r["ts"]): r["name"] for r in document if r["ph"] == "X"}
    ends = {(r["ph"], r["id"]): at[r["tid"], r["ts"]] for r in document if r.get("cat") == "fwdbwd"}
    return [(ends["s", i], ends["f", i]) for i in range(1, len(ends) // 2 + 1)]


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_every_dtype_is_named_as_torch_names_it(tmp_path):
    dtypes = [d for d in vars(torch).values() if isinstance(d, torch.dtype)]
    with torch.profiler.profile(record_shapes=True) as profiler:
        for dtype in dict.fromkeys(dtypes):
            if not str(dtype).startswith("torch.q"):  # quantized ones cannot be made empty
                torch.empty(3, dtype=dtype).view(3)
    profiler.export_chrome_trace(str(tmp_path / "torch.json"))

    write_chrome_trace(opscope.load(tmp_path / "torch.json"), tmp_path / "ours.json")

    def types_of(name):
        views = (row for row in rows(tmp_path / name) if row["name"] == "aten::view")
        return [row["args"]["Input type"][0] for row in views]

    assert types_of("ours.json") == types_of("torch.json")
    assert len(set(types_of("torch.json"))) > 20
