"""Tensors that are not what they seem: subclasses, fake, symbolic, functional, compiled."""

import warnings

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import opscope
from opscope.columns.schema import Role
from support.recorded import names, record, without_collections
from support.structure import differences, structure


class Wrapper(torch.Tensor):
    """Holds another tensor, and runs operators whenever it is asked what it looks like."""

    @staticmethod
    def __new__(cls, inner, **asked):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, **asked)

    def __init__(self, inner, **asked):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        asked = function.overloadpacket.__name__
        if asked in ("size", "sym_size", "stride", "sym_stride", "dim", "device", "layout"):
            torch.ones(1).neg()
            answers = {"dim": args[0].inner.dim(), "device": torch.device("cpu")}
            answers |= {"layout": torch.strided, "stride": args[0].inner.stride()}
            answers |= {"sym_stride": args[0].inner.stride()}
            return answers.get(asked, args[0].inner.shape)
        plain = [arg.inner if isinstance(arg, Wrapper) else arg for arg in args]
        return function(*plain, **(kwargs or {}))


@pytest.mark.parametrize(
    "asked",
    [
        {"dispatch_sizes_strides_policy": "sizes"},
        {"dispatch_sizes_strides_policy": "strides"},
        {"dispatch_device": True, "dispatch_layout": True},
    ],
    ids=str,
)
def test_recording_a_subclass_runs_none_of_its_code(asked):
    def program():
        torch.ops.aten.add(Wrapper(torch.ones(2, 3), **asked), 1)

    program()
    trace = record(program, record_shapes=True)
    assert "aten::neg" not in names(trace)
    assert names(trace).count("aten::add") == 2  # the wrapper's, and the one inside
    assert trace.ledger["arguments"]["dropped: unreadable"] == 0


def test_fake_tensors_have_shapes_and_no_address():
    def program():
        with FakeTensorMode():
            torch.ones(3, 4) @ torch.ones(4, 5)

    program()
    trace = record(program, record_shapes=True, profile_memory=True)
    tensors = trace.table("tensors")
    mm = names(trace).index("aten::mm")
    sizes = [tensors.lists("sizes")[row] for row in (tensors["event"] == mm).nonzero()[0]]
    assert sizes == [[3, 4], [4, 5]]
    assert (tensors["storage"][tensors["event"] == mm] == 0).all()
    assert "fault" not in trace.metadata


def jagged():
    torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged).sin()


def copied_on_write():
    x = torch._lazy_clone(torch.ones(3))
    x + 1
    assert torch._C._is_cow_tensor(x)  # reading its address has not made it copy
    x.add_(1)


def under_a_dispatch_mode():
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Mode(), torch.profiler.record_function("annotated"):
        torch.ones(2) + 1


def exported():
    torch._dynamo.reset()
    torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))


PROGRAMS = [jagged, copied_on_write, under_a_dispatch_mode, exported]


def compare(program, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program()
        with torch.profiler.profile(record_shapes=True, **options) as theirs:
            program()
        with without_collections(), opscope.profile(record_shapes=True, **options) as ours:
            program()
    assert "fault" not in ours.trace.metadata
    listed = [e for e in ours.events() if e.name != "[memory]"]
    expected = [e for e in theirs.events() if e.name != "[memory]"]
    for event in expected:  # torch 2.7 misses a block of an operator now and then, and lists it so
        event.cpu_children = [e for e in event.cpu_children if e.name != "[memory]"]
    assert differences(structure(listed), structure(expected)) == []
    return ours.trace


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_unusual_tensors_agree_with_torch(program):
    compare(program, profile_memory=True)


def test_compiled_regions_agree_with_torch():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    compiled = torch.compile(model, backend="aot_eager")
    changing = torch.compile(lambda x: x * 2 + x.sum(), backend="aot_eager", dynamic=True)

    def program():
        compiled(torch.ones(2, 4)).sum().backward()
        for size in (3, 4, 5):
            changing(torch.ones(size))

    program()
    trace = compare(program)
    regions = [name for name in names(trace) if name.startswith("Torch-Compiled Region: ")]
    assert len(regions) == 4
    assert "TorchDynamo Cache Lookup" in names(trace)


def test_thousands_of_tensors_in_one_call():
    tensors = [torch.ones(2, 3) for _ in range(3000)]
    trace = record(lambda: torch.cat(tensors), record_shapes=True)
    table = trace.table("tensors")
    inputs = (table["event"] == names(trace).index("aten::cat")) & (table["role"] == Role.INPUT)
    assert inputs.sum() == 3000
    assert table["element"][inputs].tolist() == list(range(3000))
    assert all(table.lists("sizes")[row] == [2, 3] for row in inputs.nonzero()[0])
    assert trace.ledger["arguments"]["dropped: unreadable"] == 0


def test_long_texts_and_lists_are_kept_or_cut_but_never_harm():
    # split_with_sizes is the operator with a long list of numbers.
    trace = record(lambda: torch.split(torch.ones(5000), [1] * 5000), record_shapes=True)
    scalars = trace.table("scalars")
    longest = max((trace.names[value] for value in scalars["value"]), key=len)
    assert longest.startswith("[1, 1, 1") and longest.endswith(", ...]")

    handle = torch.autograd._record_function_with_args_enter
    long_text = "x" * 200_000

    def program():
        torch.autograd._record_function_with_args_exit(handle("long", long_text, torch.ones(2)))

    trace = record(program, record_shapes=True)
    assert "long" in names(trace)
    assert "fault" not in trace.metadata


def compressed_sparse():
    rows, columns = torch.tensor([0, 2]), torch.arange(2)
    torch.sparse_csr_tensor(rows, columns, torch.ones(2), (1, 2)) * 2


def quantized():
    scales, zeros = torch.ones(4), torch.zeros(4)
    torch.quantize_per_channel(torch.ones(4, 2), scales, zeros, 0, torch.qint8).dequantize()


def nested():
    torch.nested.nested_tensor([torch.ones(3), torch.ones(2)]) * 2


def without_mutation():
    torch.func.functionalize(lambda x: (x * 2).add_(1))(torch.ones(4))


@pytest.mark.parametrize("program", [compressed_sparse, quantized, nested, without_mutation])
def test_recording_keeps_nothing_alive_that_a_tensor_is_made_of(program):
    program()
    trace = record(program, record_shapes=True, profile_memory=True)
    sizes = trace.table("allocations")["size_bytes"]
    assert len(sizes) > 0 and sizes.sum() == 0


def test_shapes_of_any_dimension_and_numbers_of_more_than_32_bits_are_read_whole():
    flipped = [
        torch.ones([2, 1, 3, 1, 2, 1, 2][:dim]).permute(list(range(dim))[::-1]) for dim in range(8)
    ]
    places = [[int(at == place) for at in range(5)] for place in range(5)]
    huge = [
        torch.ones(1).as_strided([1 + is_here * 2**33 for is_here in at], [1 - one for one in at])
        for at in places
    ]
    tensors = [*flipped, *huge, torch.ones(1).as_strided([1], [2**34])]
    trace = record(lambda: [torch.ops.aten.alias(one) for one in tensors], record_shapes=True)
    assert tensor_numbers(trace) == [(list(one.shape), list(one.stride())) for one in tensors]


def tensor_numbers(trace):
    """Sizes and strides of tensor arguments, in order."""
    tensors = trace.table("tensors")
    sizes, strides = (tensors.lists(name) for name in ("sizes", "strides"))
    return [(list(sizes[row]), list(strides[row])) for row in range(len(tensors))]
