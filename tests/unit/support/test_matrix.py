"""The matrix of torch and Python: its rows, its stand-ins for CUDA's libraries, what it says."""

import ctypes
import itertools
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from matrix.cuda_stubs import read_library, write_stubs
from matrix.results import read_outcomes, summary, write_page
from matrix.rows import ROWS, Row, parse_row

needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("readelf")), reason="needs a C compiler and readelf"
)


def test_rows_are_known_by_name():
    assert parse_row("torch-2.6") == Row("torch-2.6", "2.6.0", "3.11")
    assert parse_row("python-3.13t") == Row("python-3.13t", "", "3.13t")
    both = parse_row("torch-2.15-python-3.12")
    assert (both.torch, both.python) == ("2.15.0", "3.12")
    assert len({parse_row(name) for name in ROWS}) == len(ROWS)


@pytest.mark.parametrize("name", ["", "torch", "torch-1.0", "torch-2.6.0", "python", "numpy-2"])
def test_what_is_no_row_is_refused(name):
    with pytest.raises(ValueError, match="There is no row"):
        parse_row(name)


@needs_compiler
def test_a_library_can_be_loaded_with_stubs(tmp_path):
    def compile(name, text, *options):
        (tmp_path / "x.c").write_text(text)
        command = ["cc", "-shared", "-fPIC", str(tmp_path / "x.c"), "-o", str(tmp_path / name)]
        subprocess.run([*command, *options], check=True)
        (tmp_path / "x.c").unlink()

    compile("libgone.so.3", "int gone(void) { return 7; }", "-Wl,-soname,libgone.so.3")
    compile(
        "libneeds.so",
        "int gone(void); int asked(void) { return gone(); }",
        *(f"-L{tmp_path}", "-l:libgone.so.3", "-Wl,-rpath,$ORIGIN"),
    )
    (tmp_path / "libgone.so.3").unlink()
    with pytest.raises(OSError, match="libgone"):
        ctypes.CDLL(str(tmp_path / "libneeds.so"))
    assert read_library(tmp_path / "libneeds.so").needs[0] == "libgone.so.3"

    assert write_stubs(tmp_path) == ["libgone.so.3"]
    assert ctypes.CDLL(str(tmp_path / "libneeds.so")).asked() == 100
    assert {path.name for path in tmp_path.iterdir()} == {"libneeds.so", "libgone.so.3"}


def outcome(test, how, reason=""):
    return json.dumps({"test": test, "outcome": how, "reason": reason}) + "\n"


@pytest.mark.parametrize("order", list(itertools.permutations(("1", "2", "3"))))
def test_what_failed_beside_others_and_passed_alone_has_passed_and_is_named(tmp_path, order):
    outcomes = [[("a", "failed", "E slow")], [("a", "passed", "")], [("b", "failed", "E two")]]
    for name, of_process in zip(order, outcomes, strict=True):
        lines = [{"test": t, "outcome": o, "reason": r} for t, o, r in of_process]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    found = summary(read_outcomes(tmp_path))
    assert found["passed"] == 1
    assert found["alone"] == {"a": "E slow"} and found["failed"] == {"b": "E two"}


def test_the_page_says_what_each_row_gave(tmp_path):
    full = {
        "passed": 3,
        "skipped": {"no | here": 2},
        "failed": {"a.py::x": "at 0x12ab in /tmp/y/z"},
        "alone": {"a.py::y": "late"},
        "mended": {"a.py::z": "wrong"},
    }
    for name, result in {
        "torch-2.6": {"torch": "2.6.0", "python": "3.11.7", "closest": True, **full},
        "python-3.14": {"unavailable": "There is no Python 3.14 here."},
        "python-3.12": {"torch": "", "python": "3.12.1", "passed": 1, "skipped": {}, "failed": {}},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"row": name, **result}))
    write_page(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "| `torch-2.6`, only what is closest to torch | 3 | 2 | 1 |" in page
    assert "| `python-3.14` | not run: There is no Python 3.14 here. | | |" in page
    assert "| 2 | no \\| here |" in page and "| `a.py::x` | at 0x… in …/z |" in page
    assert "| failed beside other tests, passed alone | with |" in page
    assert "| `a.py::y` | late |" in page
    assert "| failed in the whole row, passed once mended | with |" in page
    assert "Everything ran and passed." in page.partition("No torch, Python 3.12.1")[2]


def test_what_rows_run_is_there():
    from matrix.__main__ import CALLS, CLOSEST, WITH_TORCH, WITHOUT_TORCH

    named = {*CALLS, *CLOSEST, *WITH_TORCH, *WITHOUT_TORCH}
    root = Path(__file__).parents[3]
    assert sorted(one for one in named if not (root / one).exists()) == []
