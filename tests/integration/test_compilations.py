"""Why torch.compile compiled something again, and where its graphs break."""

import json
from pathlib import Path

import pytest

from support.torch_processes import run_torch

pytest.importorskip("torch", reason="compiles functions")

PROGRAM = Path(__file__).parents[1] / "programs" / "compilations.py"


@pytest.fixture(scope="module")
def found():
    done = run_torch(PROGRAM)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_graph_break_has_its_line_and_a_reason(found):
    assert sorted({word for word, _, _ in found["breaks"]}) == sorted(found["expected"])
    assert all(reason for _, reason, _ in found["breaks"])
    said = {word: reason for word, reason, _ in found["breaks"]}
    for word in ("print", "generic_jump", "item", "disable", "graph_break", "time", "nonzero"):
        assert word in said[word]

    before = [word for word, _, while_recording in found["breaks"] if not while_recording]
    assert before == ["print"]
    assert found["first"][:2] == ["printing", "printing"]


def test_every_recompilation_has_its_reason(found):
    reasons = [reason for function, reason, _ in found["recompilations"] if function == "depends"]
    assert len(reasons) == 7
    for why in ("size mismatch", "dtype mismatch", "times", "rank", "factor", "SHIFT", "grad_mode"):
        assert any(why in reason for reason in reasons), (why, reasons)
    assert all(has_taken_time for *_, has_taken_time in found["recompilations"])
