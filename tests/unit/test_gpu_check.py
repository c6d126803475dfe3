"""``make gpu-check`` says first what is wrong, ends in time, and leaves its figures in a file."""

import json
import sys
from pathlib import Path

import pytest
from tests.gpu.check import Ended, check, run_program

from support.processes import run_python

ROOT = Path(__file__).parents[2]
SEES = json.dumps({"torch": "2.13", "cuda": "13", "device": "H100"})


@pytest.fixture
def run(tmp_path):
    """Runs nothing: each part ends as it is told to, all well unless said otherwise."""
    ends = {"-c": Ended(0, SEES), "pip": Ended(0, ""), "pytest": Ended(0, "9 passed")}
    ends["benchmarks.gpu"] = Ended(0, "")
    limits = []

    def call(command, limit_s):
        limits.append(limit_s)
        part = next(part for part in ends if part in command)
        if part == "benchmarks.gpu":
            Path(command[-1]).write_text(json.dumps({"wrong": call.wrong, "graphs": {"share": 1}}))
        return ends[part]

    call.ends, call.limits, call.wrong = ends, limits, []
    return call


@pytest.fixture(autouse=True)
def everything_installed(monkeypatch):
    monkeypatch.setattr("tests.gpu.check._missing", list)


def test_where_all_is_well_nothing_is_wrong(run, tmp_path):
    found = check(run, tmp_path / "figures.json")
    assert found.wrong == []
    assert found.as_text().startswith("Nothing is wrong.")
    assert found.figures["graphs"] == {"share": 1}
    assert sum(run.limits[:1]) < 470 and max(run.limits) <= 470


def test_a_rehearsal_does_not_claim_that_a_gpu_is_well(run, tmp_path):
    run.ends["-c"] = Ended(0, SEES.replace('"H100"', "null"))
    found = check(run, tmp_path / "figures.json", device="cpu")
    assert found.as_text().startswith("Rehearsed on the CPU: no GPU was checked.")


@pytest.mark.parametrize(
    ("part", "ended", "said"),
    [
        (
            "-c",
            Ended(1, "ImportError: libcuda\n"),
            "torch cannot be imported: ImportError: libcuda",
        ),
        ("-c", Ended(0, SEES.replace('"H100"', "null")), "torch sees no GPU here"),
        ("pip", Ended(1, "no compiler\n"), "opscope does not build here: no compiler"),
        ("pytest", Ended(1, "FAILED tests/gpu/x.py::a - 1 != 2\n"), "FAILED tests/gpu/x.py::a"),
        ("pytest", Ended(4, "usage\n"), "the tests did not run: usage"),
        ("pytest", Ended(0, "9 skipped"), "no test ran"),
        ("pytest", Ended(None, ""), "comparing with torch.profiler was stopped after"),
        ("benchmarks.gpu", Ended(None, ""), "measuring was stopped after"),
    ],
)
def test_what_is_wrong_is_said_first(run, tmp_path, part, ended, said):
    run.ends[part] = ended
    found = check(run, tmp_path / "figures.json")
    assert len(found.wrong) == 1
    assert said in found.as_text().splitlines()[0]


def test_figures_that_are_wrong_are_said_too(run, tmp_path):
    run.wrong = ["3 of 9 kernels lost"]
    found = check(run, tmp_path / "figures.json")
    assert found.as_text().splitlines()[0] == "WRONG: 3 of 9 kernels lost"
    assert "wrong" not in found.figures


def test_a_part_that_does_not_end_is_stopped_with_what_it_started():
    nap = "import subprocess, sys; subprocess.run(['sleep', '1000'])"
    ended = run_program([sys.executable, "-c", nap], 1)  # comes back when both have let go
    assert ended.code is None


def test_a_machine_without_a_gpu_is_told_so_and_fails(tmp_path):
    pytest.importorskip("torch")
    file = tmp_path / "figures.json"
    done = run_python(
        "-m", "tests.gpu.check", "--output", file, cwd=ROOT, added={"CUDA_VISIBLE_DEVICES": ""}
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("WRONG: ")
    assert "torch sees no GPU here" in done.stdout.splitlines()[0]
    assert "torch sees no GPU" in json.loads(file.read_text())["wrong"][0]
