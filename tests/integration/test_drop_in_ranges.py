"""emit_nvtx and emit_itt under the drop-in: torch's own, as a tool that listens gets them."""

import os
import subprocess
from pathlib import Path

import pytest

from support.processes import run_python

torch = pytest.importorskip("torch", reason="emits the ranges of torch operators")

PROGRAM = """
import sys
import torch
from torch.autograd import profiler
shape = torch.ones(2, 3, requires_grad=True)
emit = getattr(profiler, "emit_" + sys.argv[1])
torch.ones(4)
with emit(record_shapes=sys.argv[2] == "shapes"):
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


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    """The collector beside the tests, compiled: the path of a library."""
    built = tmp_path_factory.mktemp("tools") / "itt_collector.so"
    source = Path(__file__).parents[1] / "support" / "itt_collector.cpp"
    compiler = os.environ.get("CXX", "c++")
    command = [compiler, "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(built)]
    subprocess.run(command, check=True, timeout=300)
    return str(built)


@pytest.fixture
def emit(tmp_path):
    """Runs the program with the drop-in: (its end, lines of the tool)."""

    def run(kind, shapes="no", **environment):
        log = tmp_path / "log"
        (tmp_path / "program.py").write_text(PROGRAM)
        done = run_python(
            *("-m", "opscope.drop_in", "program.py", kind, shapes),
            cwd=tmp_path,
            added={"ITT_LOG": str(log), **environment},
        )
        return done, log.read_text().splitlines() if log.exists() else []

    return run


def nested(lines):
    """(depth, text) of every range, by the order of starts and ends."""
    depth, found = 0, []
    for line in lines:
        if line == "end":
            depth -= 1
            assert depth >= 0, "more ends than starts"
        else:
            found.append((depth, line.partition(" ")[2]))
            depth += 1
    assert depth == 0, "every range ends"
    return found


needs_itt = pytest.mark.skipif(
    not torch.profiler.itt.is_available(), reason="this build of torch has no ITT"
)


@needs_itt
@pytest.mark.parametrize("shapes", ["shapes", "no"])
def test_itt_tasks(emit, collector, shapes):
    done, lines = emit("itt", shapes, INTEL_LIBITTNOTIFY64=collector)
    tasks = nested(lines)

    assert done.stdout.strip() == f"ActiveProfilerType.ITT True; {ALREADY}", done.stderr
    assert tasks[:2] == [(0, "PyTorch: mine"), (1, "PyTorch: aten::mul")]
    assert [text for _, text in tasks if text.startswith("PyTorch: MulBackward0")]
    assert not [text for _, text in tasks if text.startswith("PyTorch: aten::ones,")]


@needs_itt
def test_itt_without_a_collector_is_silent(emit):
    done, lines = emit("itt", INTEL_LIBITTNOTIFY64="")
    assert (done.returncode, lines) == (0, []), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch pushes NVTX ranges here")
def test_nvtx_fails_as_it_does_in_torch_without_cuda(emit):
    done, _ = emit("nvtx")
    assert done.returncode == 1
    assert "Torch not compiled with CUDA enabled" in done.stderr or "NVIDIA" in done.stderr
