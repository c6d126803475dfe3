"""emit_nvtx and emit_itt under the drop-in, as a tool that listens gets them."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="emits the ranges of torch operators")

from support.range_tools import nested  # noqa: E402

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
torch.ones(5)
assert not torch.autograd._profiler_enabled()
print(kind)
"""


@pytest.fixture
def emit(tmp_path):
    """Runs the program with the drop-in: (standard output, standard error, lines of the tool)."""

    def run(kind, shapes="no", **environment):
        log = tmp_path / "log"
        (tmp_path / "program.py").write_text(PROGRAM)
        done = subprocess.run(
            [sys.executable, "-m", "opscope.drop_in", "program.py", kind, shapes],
            cwd=tmp_path,
            env={**os.environ, "NVTX_LOG": str(log), "ITT_LOG": str(log), **environment},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        lines = log.read_text().splitlines() if log.exists() else []
        return done.stdout.strip(), done.stderr, lines

    return run


def test_nvtx_ranges_carry_sequence_numbers_shapes_and_the_operators_inputs_come_from(
    emit, range_tools
):
    tool = str(range_tools["nvtx_injection"])
    kind, errors, lines = emit("nvtx", "shapes", NVTX_INJECTION64_PATH=tool)
    ranges = nested(lines, "pop")

    assert kind == "ActiveProfilerType.NVTX True" and "no effect" not in errors
    assert ranges[0] == (0, "mine, op_id = 1")
    assert ranges[1] == (
        1,
        "aten::mul, seq = 0, op_id = 2, sizes = [[2, 3], [2, 3]], input_op_ids = [(0,-1), (0,-1)]",
    )
    outer_sum = next(text for depth, text in ranges if text.startswith("aten::sum") and depth == 0)
    assert "seq = 1" in outer_sum and "input_op_ids = [(2,0)" in outer_sum
    backward = [text for _, text in ranges if text.startswith("MulBackward0")]
    assert len(backward) == 1 and "seq = 0" in backward[0], "as its forward"
    assert not [text for _, text in ranges if text.startswith("aten::ones,")], "before and after"


def test_nvtx_without_shapes(emit, range_tools):
    _, _, lines = emit("nvtx", NVTX_INJECTION64_PATH=str(range_tools["nvtx_injection"]))
    texts = [text for _, text in nested(lines, "pop")]
    assert "mine, op_id = 1" in texts and "aten::mul, seq = 0, op_id = 2" in texts
    assert not [text for text in texts if "sizes" in text]


def test_nvtx_without_a_tool_says_so_and_the_program_goes_on(emit):
    kind, errors, lines = emit("nvtx", NVTX_INJECTION64_PATH="/no/such/tool.so")
    assert kind == "ActiveProfilerType.NVTX True" and lines == []
    assert "emit_nvtx has no effect" in errors and "check that path" in errors


needs_itt = pytest.mark.skipif(
    not torch.profiler.itt.is_available(), reason="this build of torch has no ITT"
)


@needs_itt
@pytest.mark.parametrize("shapes", ["shapes", "no"])
def test_itt_tasks(emit, range_tools, shapes):
    kind, _, lines = emit("itt", shapes, INTEL_LIBITTNOTIFY64=str(range_tools["itt_collector"]))
    tasks = nested(lines, "end")

    sizes = ", sizes = [[2, 3], [2, 3]]" if shapes == "shapes" else ""
    assert kind == "ActiveProfilerType.ITT True"
    assert tasks[:2] == [(0, "PyTorch: mine"), (1, f"PyTorch: aten::mul{sizes}")]
    assert [text for _, text in tasks if text.startswith("PyTorch: MulBackward0")]


@needs_itt
def test_itt_without_a_collector_is_silent(emit):
    kind, errors, lines = emit("itt", INTEL_LIBITTNOTIFY64="")
    assert (kind, lines) == ("ActiveProfilerType.ITT True", []) and "Traceback" not in errors
