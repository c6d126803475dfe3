"""torch.profiler's observer and opscope's watch the same run: both files must say the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.autograd import _record_function_with_args_enter as enter
from torch.autograd import _record_function_with_args_exit as leave

import opscope
from programs.torch_programs import PROGRAMS, checkpointed_and_hooked, kinds_of_tensor
from support.execution_traces import THREAD, assert_same_run, named, names_of, nodes_of
from support.torch_processes import TorchProgram

TESTS = Path(__file__).parents[1]

# torch's observer leaves out operators that raised and, with an error, strided nested tensors; both
# are tested below.
COMPARABLE = [p for p in PROGRAMS if p not in (checkpointed_and_hooked, kinds_of_tensor)]


def watch(program: Callable[[], object], folder: Path) -> tuple[list, list]:
    """Nodes of torch's file and of opscope's, of one run under both observers."""
    theirs = torch.profiler.ExecutionTraceObserver()
    theirs.register_callback(str(folder / "torch.json"))
    ours = opscope.ExecutionTraceObserver().register_callback(folder / "opscope.json")
    theirs.start()
    ours.start()
    try:
        program()
    finally:
        ours.stop()
        theirs.stop()
        theirs.unregister_callback()
        ours.unregister_callback()
    torchs = nodes_of(folder / "torch.json")
    assert len(torchs) > 2
    return torchs, nodes_of(folder / "opscope.json")


@pytest.mark.parametrize("program", COMPARABLE, ids=lambda program: program.__name__)
def test_programs(program, tmp_path):
    program()  # caches and lazy imports
    assert_same_run(*watch(program, tmp_path))


def test_jagged_nested_tensors(tmp_path):
    def program():
        offsets = torch.tensor([0, 2, 4, 6, 8])
        jagged = torch.nested.nested_tensor_from_jagged(torch.rand(8, 4), offsets)
        jagged.sin().cos()
        (jagged * 2).sum()

    program()
    assert_same_run(*watch(program, tmp_path))


def test_whatever_can_be_passed(tmp_path):
    x, y = torch.ones(2, 3), torch.ones(4, dtype=torch.int64)
    numbers = [1, False, 2.5, 1e300, 1e-9, 0.1, -0.0, float("inf"), float("-inf"), float("nan")]
    texts = ["", 'a "quoted" \\ text', "line\nbreak\ttab", "\x01"]
    lists = [[x, x], (x, y), [1, 2, 3], (1, 2.0, "a"), [1.5, 2.0], [True, False], ["a", "b"]]
    deeper = [[[1, 2], [3]], ((x, 1), [y]), (), [(x,), (y,)], [None, x]]

    def program():
        with torch.profiler.record_function("with a text", "1, 2, 3"):
            values = [*numbers, None, 1.5 + 2j, *texts, *lists, *deeper]
            leave(enter("everything", *values, y))

    torchs, ours = watch(program, tmp_path)

    assert_same_run(torchs, ours)
    values = named(ours, "everything")["inputs"]["values"]
    assert values[:3] == [1, False, 2.5]
    assert values[6:12] == [0.0, "inf", "-inf", "nan", "<None>", "<ComplexDouble>"]
    assert named(ours, "with a text")["inputs"]["values"] == ["1, 2, 3"]


def test_text_outside_ascii_is_kept(tmp_path):
    _, ours = watch(lambda: leave(enter("f", "☃é")), tmp_path)

    # Newer torch escapes bytes as if they were negative numbers.
    assert named(ours, "f")["inputs"]["values"] == ["☃é"]


def test_generated_kernels(tmp_path):
    x = torch.ones(3)
    triton = {"kernel_backend": "triton", "kernel_file": "/tmp/torchinductor/ab/cabc.py",
              "grid": "grid(16,)", "stream": 7}  # fmt: skip

    def program():
        for name, values, keywords in [
            ("triton_poi_fused_add_0", [x, x, 3], triton),
            (
                "cpp_kernel",
                [x],
                {"kernel_backend": "cpp", "kernel_file": "/tmp/x.cpp", "stream": 1},
            ),
            ("extern", [x, [x], (1, 2)], {"kernel_backend": "", "stream": 2}),
        ]:
            with torch._C._profiler._RecordFunctionFast(name, values, keywords):
                pass

    # Fast annotations are seen only while a profiler runs.
    with opscope.profile(profile_memory=True):
        torchs, ours = watch(program, tmp_path)

    values = named(torchs, "triton_poi_fused_add_0")["inputs"]["values"]
    if values[-1] != 7:
        pytest.skip("this torch does not keep a kernel's stream as a further input")
    if values[-2] == triton["grid"]:
        pytest.skip("this torch keeps a kernel's grid as a further input")
    assert_same_run(torchs, ours)
    kernel = named(ours, "triton_poi_fused_add_0")
    assert kernel["attributes"]["kernel_file"] == "cabc.py"
    assert kernel["inputs"]["values"][-2:] == [3, 7]  # the stream is a further input


def test_operators_that_raise_are_kept(tmp_path):
    def program():
        torch.ones(1)
        with pytest.raises(RuntimeError):
            torch.nn.functional.linear(torch.ones(2, 3), torch.ones(4, 5))
        torch.zeros(1)

    torchs, ours = watch(program, tmp_path)

    assert "aten::linear" not in names_of(torchs)
    linear = named(ours, "aten::linear")
    assert linear["outputs"]["values"] == []
    assert linear["inputs"]["shapes"][:2] == [[2, 3], [4, 5]]
    theirs = names_of(torchs)
    assert [name for name in names_of(ours) if name in theirs] == theirs
    known = {node["id"] for node in ours}
    assert all(node["ctrl_deps"] in known for node in ours)


def test_strided_nested_tensors_are_kept(tmp_path):
    def program():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3, 3)])
        torch.nn.functional.linear(nested + nested, torch.ones(5, 3))

    observer = opscope.ExecutionTraceObserver().register_callback(tmp_path / "t.json")
    observer.start()
    program()
    observer.unregister_callback()

    add = next(node for node in nodes_of(tmp_path / "t.json") if node["name"] == "aten::add")
    assert add["inputs"]["types"][:2] == ["Tensor(float)"] * 2
    assert add["inputs"]["shapes"][:2] == [[], []]
    assert add["inputs"]["values"][0][1:] == [0, 0, 0, 0, ""]  # torch has no sizes of those


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory):
    """The folder of what tests/programs/gloo_ranks.py wrote."""
    folder = tmp_path_factory.mktemp("ranks")
    script = TESTS / "programs" / "gloo_ranks.py"
    ranks = [
        TorchProgram(script, rank, folder, added={"GLOO_SOCKET_IFNAME": "lo"}) for rank in range(2)
    ]
    errors = [rank.communicate(timeout=240)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], errors
    return folder


def test_two_ranks_over_gloo(two_ranks):
    for rank in range(2):
        ours = nodes_of(two_ranks / f"opscope.{rank}.json")
        (own, transfers), (theirs, torchs_transfers) = (
            _split(nodes) for nodes in (ours, nodes_of(two_ranks / f"torch.{rank}.json"))
        )
        assert_same_run(theirs, own)
        assert transfers == torchs_transfers
        assert [name for name, *_ in transfers].count("gloo:all_reduce") == 3
        said = [n["attributes"] for n in ours if "collective_name" in n["attributes"]]
        names = [attributes["collective_name"] for attributes in said]
        assert names[:2] == ["allreduce", "all_gather"]
        assert names.count("send" if rank == 0 else "recv") == 1
        assert said[0]["dtype"] == "Float"
        assert (said[0]["in_msg_nelems"], said[0]["pg_size"]) == (12, 2)
        assert (said[0]["pg_desc"], said[1]["pg_desc"]) == ("default_pg", "tensor parallel")


def _split(nodes: list) -> tuple[list, list]:
    """What a rank's main thread did, and what gloo's threads did for it.

    Whom the latter belongs to depends on who is done first, and each start of an observer describes
    the process groups once more.
    """
    main = next(node for node in nodes if node["name"] == THREAD)["attributes"]["tid"]
    kept, transfers = [], []
    for node in nodes:
        is_transfer = node["name"].startswith("gloo:") or node["attributes"]["tid"] not in (0, main)
        if is_transfer and node["name"] != THREAD:
            transfers.append((node["name"], node["inputs"]["types"], node["inputs"]["shapes"]))
        elif not is_transfer and not node["name"].startswith("## process_group"):
            kept.append(node)
    return kept, sorted(transfers)
