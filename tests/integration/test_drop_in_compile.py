"""torch.compile under the drop-in: what it says of itself, and that profiling changes nothing."""

import json
from pathlib import Path

import pytest

from support.torch_processes import run_torch

pytest.importorskip("torch", reason="compiles functions")

PROGRAM = Path(__file__).parents[1] / "programs" / "compiled_programs.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """By profiler and program what was found."""
    folder = tmp_path_factory.mktemp("compiled")
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    done = run_torch(PROGRAM, cwd=folder, added=cache)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "program", ["compiling", "running", "undisturbed", "dynamic", "backward", "inductor"]
)
def test_it_is_as_with_torchs_profiler(found, program):
    assert found["opscope"][program] == found["torch"][program]


def test_the_compiler_says_what_it_does_and_is_not_disturbed(found):
    phases = found["opscope"]["compiling"]
    assert len(phases) >= 3 and any("call_user_compiler" in name for name in phases)

    regions, lookups = found["opscope"]["running"]
    assert regions[:4] == [f"Torch-Compiled Region: {n}" for n in ("0/0", "1/0", "0/1", "1/0")]
    assert lookups > 0

    assert found["opscope"]["undisturbed"] == [1, 0, 0]

    assert found["opscope"]["dynamic"] == [[[15, 3], [3, 5]], [[17, 3], [3, 5]]]

    spans = found["opscope"]["backward"]
    assert spans and all(has_forward for _, has_forward, _ in spans)

    assert any("cpp_fused" in name for name in found["opscope"]["inductor"])
