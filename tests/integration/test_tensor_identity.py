"""Which tensors are the same tensor: ids across views, set_, resize_, and addresses used again."""

from __future__ import annotations

import gc
import warnings

import pytest

torch = pytest.importorskip("torch")

from opscope import _native  # noqa: E402
from opscope.timeline.tree.arguments import Scalar  # noqa: E402
from opscope.timeline.tree.node import OperatorDetail  # noqa: E402
from support.recorded import record  # noqa: E402

BOTH = {"record_shapes": True, "profile_memory": True}


def inputs(trace, name, nth=0):
    """Arguments of the nth operator of a name."""
    nodes = [node for node in trace.tree().depth_first() if node.name == name]
    detail = nodes[nth].detail
    assert isinstance(detail, OperatorDetail)
    return detail.inputs


def life(trace):
    """Every allocation and free as (tensor id, allocation id, allocated)."""
    table = trace.table("allocations")
    columns = (table["tensor_id"], table["allocation_id"], table["size_bytes"] > 0)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def torchs_life(program):
    """The same, as torch.profiler tells it."""
    gc.collect()
    gc.disable()
    with torch.profiler.profile(**BOTH) as prof:
        program()
    gc.enable()
    pending, found = list(prof.profiler.kineto_results.experimental_event_tree()), []
    while pending:
        node = pending.pop()
        pending += node.children
        if node.name == "[memory]":
            found.append(node)
    fields = [node.extra_fields for node in sorted(found, key=lambda node: node.start_time_ns)]
    return [
        (-1 if f.id is None else f.id, f.allocation_id, f.alloc_size > 0) for f in fields
    ]  # fmt: skip


def one():
    return torch.ones(1).storage()


def keep_storages(x):
    """Take ``x`` its storage and give it another, three times; let go of all only then."""
    kept = [x.storage()]
    for _ in range(3):
        x.set_()
        x.set_(one())
        kept.append(x.storage())
    x.view_as(x)
    while kept:
        kept.pop()


def through_everything():
    """Storages kept and let go, taken away and given again, and grown: still one tensor."""
    x = torch.ones(1)
    keep_storages(x)
    for empty_first in (False, True):
        for _ in range(3):
            if empty_first:
                x.set_()
            x.set_(one())
    for size in range(1, 5):
        x.resize_(size)
    x.view_as(x)


def numbers_in_place():
    with torch.no_grad():
        x = torch.ones(1)
        for _ in range(10):
            x.add_(2)
            torch.ones(2) + torch.ones(2)


def nothing_in_it_and_used_first():
    empty = torch.empty(0)
    x = torch.ones(3)
    empty.add(1)
    x.add(torch.ones(3))


@pytest.mark.parametrize(
    "program", [through_everything, numbers_in_place, nothing_in_it_and_used_first]
)
def test_ids_are_the_ones_torch_gives(program):
    program()
    expected = torchs_life(program)
    assert len(expected) >= 4
    assert life(record(program, **BOTH)) == expected


def test_views_share_memory_and_not_the_struct():
    x = torch.rand(4, 3)
    trace = record(lambda: (x.view(12).sin(), x.t().cos(), x.neg()), **BOTH)

    view, transposed, plain = (inputs(trace, f"aten::{op}")[0] for op in ("sin", "cos", "neg"))

    assert view.storage == transposed.storage == plain.storage == x.data_ptr()
    assert len({view.impl, transposed.impl, plain.impl}) == 3
    assert view.tensor_id == transposed.tensor_id == plain.tensor_id
    assert (transposed.sizes, transposed.strides) == ((3, 4), (1, 3))


@pytest.mark.parametrize("busy", [False, True], ids=["alone", "among others"])
def test_a_tensor_is_followed_from_its_first_byte_to_its_last(busy):
    def other_work(x):
        return (x + 1).relu_() + torch.zeros(1).cos() if busy else None

    def program():
        kept = [other_work(other)]
        x = torch.rand(4, 3)
        x.resize_(4, 4)
        x.sin()
        kept.append(other_work(other))
        gone.append(x.data_ptr())
        del x

    other, gone = torch.ones(1), []
    tree = record(program, **BOTH).tree()
    by_name = {node.name: node for node in tree.depth_first()}
    (made,) = by_name["aten::rand"].children[0].children
    grown, freed = by_name["aten::resize_"].children
    (last,) = (root for root in tree.roots if root.is_memory and root.detail.address == gone[0])
    uniform, sin = (by_name[name].detail.inputs[0] for name in ("aten::uniform_", "aten::sin"))

    # THEN one id from the first allocation to the free outside of any operator
    events = [node.detail for node in (made, grown, freed, last)]
    assert {detail.tensor_id for detail in events} == {uniform.tensor_id} == {sin.tensor_id}
    assert [detail.size_bytes for detail in events] == [48, 64, -48, -64]
    # AND two allocations, each with its address from beginning to end
    old, new = made.detail.allocation_id, grown.detail.allocation_id
    assert old != new and [detail.allocation_id for detail in events] == [old, new, old, new]
    assert (uniform.storage, sin.storage) == (made.detail.address, grown.detail.address)
    assert freed.detail.address == made.detail.address != last.detail.address


def test_an_address_used_again_is_another_allocation_and_another_tensor():
    def program():
        for _ in range(2):
            torch.zeros(64).add_(1).add_(1).neg()

    trace = record(program, **BOTH)
    first, second = (inputs(trace, "aten::neg", nth)[0] for nth in range(2))

    assert first.tensor_id != second.tensor_id and first.allocation_id != second.allocation_id
    assert first.impl != second.impl
    assert first.version == second.version == 2  # changes in place


def test_everything_a_tensor_argument_has():
    x = torch.ones(10, 10).as_strided([4, 4], [12, 3])
    y = torch.ones(4, 1, requires_grad=True)
    trace = record(lambda: (x + y, x * y), **BOTH)

    left, right, alpha = inputs(trace, "aten::add")
    add, mul = (
        node.detail for node in trace.tree().roots if node.name in ("aten::add", "aten::mul")
    )

    assert (left.sizes, left.strides, left.dtype) == ((4, 4), (12, 3), "float32")
    assert (right.sizes, right.strides, right.layout) == ((4, 1), (1, 1), "strided")
    assert (left.requires_grad, right.requires_grad) == (False, True)
    assert (left.device_type, left.device_index) == (0, -1)
    assert (left.impl, left.storage) == (x._cdata, x.untyped_storage().data_ptr())
    assert left.version == x._version == 0
    assert alpha == Scalar(alpha.type, 1)
    assert add.sequence_number + 1 == mul.sequence_number >= 1


@pytest.mark.parametrize(
    ("make", "layout", "dtype"),
    [
        (lambda x: x.to_sparse(), "sparse_coo", "float32"),
        (lambda x: x.to_sparse_csr(), "sparse_csr", "float32"),
        (lambda x: x.to_mkldnn(), "_mkldnn", "float32"),
    ],
    ids=["coo", "csr", "mkldnn"],
)
def test_tensors_in_other_layouts_have_sizes_and_no_strides(make, layout, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = make(torch.eye(3))
        trace = record(lambda: x + x, **BOTH)

    left, right, _ = inputs(trace, "aten::add")

    assert (left.layout, left.dtype, left.sizes, left.strides) == (layout, dtype, (3, 3), ())
    assert (left.storage, left.impl) == (0, x._cdata)
    assert left.tensor_id == right.tensor_id


@pytest.fixture
def small_budget():
    record(lambda: None)  # the bridge is loaded
    _native.set_tensor_budget(200 * 100)  # of bytes; a struct has some 200
    yield
    _native.set_tensor_budget(512 << 20)


def test_what_the_budget_does_not_hold_is_counted(small_budget):
    def program():
        for _ in range(500):
            torch.ones(1).neg_()

    trace = record(program, **BOTH)

    seen_without_hold = trace.ledger["tensor ids"]["dropped: memory budget"]
    distinct = len(set(trace.table("tensors")["impl"].tolist()))
    assert 700 <= seen_without_hold < 1000  # of 500 tensors, each the argument of two operators
    assert 50 <= distinct < 500  # structs that were not held were used again
    # The next recording starts with all of its budget.
    assert record(lambda: torch.ones(1).neg_(), **BOTH).ledger["tensor ids"] == {
        "dropped: memory budget": 0
    }
