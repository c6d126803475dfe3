"""emit_nvtx and emit_itt under the drop-in: torch's own."""

import pytest

from support.torch_processes import run_torch

torch = pytest.importorskip("torch", reason="emits the ranges of torch operators")

PROGRAM = """
import sys
import torch
from torch.autograd import profiler
shape = torch.ones(2, 3, requires_grad=True)
emit = getattr(profiler, "emit_" + sys.argv[1])
torch.ones(4)
with emit(record_shapes=True):
    kind = f"{torch._C._autograd._profiler_type()} {torch.autograd._profiler_enabled()}"
    with torch.profiler.record_function("mine"):
        doubled = shape.mul(shape)
    doubled.sum().backward()
    try:
        torch.profiler.profile().start()
    except RuntimeError as error:
        kind += f"; {error}"
torch.ones(5)
assert not torch.autograd._profiler_enabled()
with torch.profiler.profile() as prof:
    shape.sin()
assert [event.name for event in prof.events() if event.name.startswith("aten::")] == ["aten::sin"]
print(kind)
"""
ALREADY = "Profiler is already enabled on this thread"


@pytest.fixture
def emit(tmp_path):
    """Runs the program with the drop-in."""

    def run(kind):
        (tmp_path / "program.py").write_text(PROGRAM)
        return run_torch("-m", "opscope.drop_in", "program.py", kind, cwd=tmp_path)

    return run


@pytest.mark.skipif(not torch.profiler.itt.is_available(), reason="this build of torch has no ITT")
def test_itt_is_torchs_own_and_silent_without_a_tool(emit):
    done = emit("itt")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"ActiveProfilerType.ITT True; {ALREADY}"
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch pushes NVTX ranges here")
def test_nvtx_fails_as_it_does_in_torch_without_cuda(emit):
    done = emit("nvtx")
    assert done.returncode == 1
    said = ("Torch not compiled with CUDA enabled", "NVIDIA", "No CUDA GPUs are available")
    assert any(one in done.stderr for one in said)
