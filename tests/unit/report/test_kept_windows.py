"""Kept windows: equal to new ones, and made anew if anything is wrong with them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from opscope.columns.schema import EventKind
from opscope.report import kept_windows
from opscope.report.kept_windows import windows_of
from opscope.report.windows import Windows
from opscope.storage.long_trace import LongTrace
from support.build_trace import build_trace, span

CALL = EventKind.PYTHON_CALL


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept_windows, "_LEAST_SPANS", 0)
    return saved(tmp_path, 300)


def saved(tmp_path: Path, count: int) -> Path:
    calls = [span("f", i, i + 0.4, kind=CALL, frame=("a.py", i % 3, "f")) for i in range(count)]
    adds = [span("aten::add", i + 0.5, i + 0.9) for i in range(count)]
    build_trace([one for pair in zip(calls, adds, strict=True) for one in pair]).save(
        tmp_path / "trace"
    )
    return tmp_path / "trace"


def content(windows: Windows) -> dict[str, object]:
    moment, whole = windows.begin_ns, (windows.begin_ns, windows.end_ns + 1, 5_000)
    return {
        **{name: array.tolist() for name, array in windows.arrays().items()},
        "found": windows.find(lambda texts: np.array(["add" in text for text in texts]), moment),
        "window": windows.window(*whole)[1].tolist(),
        "narrow": windows.between(moment, moment + 3_000, 0)[0].frame.tolist(),
    }


def kept_files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "cache" / "windows").iterdir())


def test_kept_windows_equal_new_ones_and_read_no_spans(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = content(windows_of(LongTrace.at(folder)))
    assert new["found"]
    with monkeypatch.context() as patched:
        patched.setattr(Windows, "_read_all", None)
        again = content(windows_of(LongTrace.at(folder)))
    assert again == new == content(Windows(LongTrace.at(folder)))


@pytest.mark.parametrize(
    "damage", ["cut", "changed", "empty", "pickle", "rows", "types", "missing", "writable"]
)
def test_anything_wrong_with_them_makes_them_anew(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    new = content(windows_of(LongTrace.at(folder)))
    (file,) = kept_files(tmp_path)
    data = bytearray(file.read_bytes())
    with np.load(file) as loaded:
        arrays = dict(loaded)
    if damage == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif damage == "changed":
        data[data.index(arrays["kept_start_ns"].tobytes()) + 5] ^= 1
        file.write_bytes(data)
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "pickle":
        np.savez(file, **arrays | {"bounds_ns": np.array([os.system], dtype=object)})
    elif damage == "rows":
        np.savez(file, **arrays | {"kept_name": arrays["kept_name"] + 1_000})
    elif damage == "types":
        np.savez(file, **arrays | {"begin_ns": np.array(3)})
    elif damage == "missing":
        np.savez(file, **{name: arrays[name] for name in arrays if name != "count"})
    else:
        file.chmod(0o666)
    made: list[None] = []
    read_all = Windows._read_all
    monkeypatch.setattr(Windows, "_read_all", lambda self: made.append(None) or read_all(self))
    assert content(windows_of(LongTrace.at(folder))) == new
    assert made
    assert content(windows_of(LongTrace.at(folder))) == new
    assert len(made) == 1  # they were kept again


def test_another_trace_in_the_same_place_has_its_own(folder: Path, tmp_path: Path) -> None:
    windows_of(LongTrace.at(folder))
    other = windows_of(LongTrace.at(saved(tmp_path, 200)))
    assert other.spans == 400
    assert content(other) == content(Windows(LongTrace.at(folder)))


def test_old_ones_are_removed_and_a_cache_that_cannot_be_written_is_not_needed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = content(windows_of(LongTrace.at(folder)))
    monkeypatch.setattr(kept_windows, "_MOST_BYTES", 1)
    windows_of(LongTrace.at(saved(tmp_path, 100)))
    assert len(kept_files(tmp_path)) == 1
    (tmp_path / "file").touch()
    monkeypatch.setenv("OPSCOPE_CACHE", str(tmp_path / "file"))
    assert content(windows_of(LongTrace.at(saved(tmp_path, 300))))["count"] == new["count"]
