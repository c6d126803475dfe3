"""The same recording, read by torch.profiler's own classes and by opscope's.

torch.profiler records a small seeded program; its raw events become a Trace; then every list,
relation, sum and table made from both must agree. Only times in text may differ in the last digit,
which is rounding: torch adds up floats, opscope integers.
"""

import re
import warnings
from collections import Counter

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from opscope.torch_api.event_list.event_list import make_event_list
from support.torch_reference import trace_of

pytestmark = pytest.mark.skipif(
    not hasattr(torch._C._autograd._KinetoEvent, "structured_input_strides"),
    reason=f"events of torch {torch.__version__} do not tell strides, so they make no trace",
)

SAME = (
    "name", "trace_name", "overload_name", "thread", "fwd_thread", "count", "input_shapes",
    "concrete_inputs", "kwinputs", "stack", "scope", "use_device", "cpu_memory_usage",
    "device_memory_usage", "self_cpu_memory_usage", "self_device_memory_usage", "is_async",
    "is_remote", "sequence_nr", "node_id", "device_type", "device_resource_id", "is_legacy",
    "is_user_annotation", "is_python_function", "activity_type", "flow_id", "flow_type",
    "flow_start", "structured_input_shapes", "structured_input_strides", "input_dtypes",
    "linked_correlation_id", "event_metadata", "device_time_total",
)  # fmt: skip


def mlp():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))


def differentiate_mlp(model=None):
    out = (model or mlp())(torch.randn(3, 4))
    (out + torch.cat([out, out]).sum()).mean().backward()


def train_mlp():
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        differentiate_mlp(model)
        optimizer.step()
        optimizer.zero_grad()


def train_conv():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, padding=1, groups=2), torch.nn.BatchNorm2d(4), torch.nn.Flatten()
    )
    model(torch.randn(2, 2, 6, 6)).sum().backward()


def differentiate_twice():
    a = torch.randn(3, requires_grad=True)
    y = (a * a).sum()
    y.backward(retain_graph=True)
    y.backward()
    (gradient,) = torch.autograd.grad((a**3).sum(), a, create_graph=True)
    gradient.sum().backward()


def annotate():
    with record_function("outer"):
        with record_function("inner", "1, 2"):
            kept = torch.arange(5)
        torch.full((2,), 3.5)
        torch.index_select(kept, 0, torch.tensor([0]))
    del kept


PROGRAMS = [train_mlp, train_conv, differentiate_twice, annotate]
# With stacks only what has no annotation: torch nests one in the call that opened it, which ends
# before it does, and no times can say so.
PROGRAMS_WITH_STACK = [differentiate_mlp, train_conv]


def record(program, with_stack=False):
    config = torch._C._profiler._ExperimentalConfig(verbose=True, capture_overload_names=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with profile(
            activities=[ProfilerActivity.CPU],
            record_shapes=True,
            profile_memory=True,
            with_flops=True,
            with_stack=with_stack,
            with_modules=with_stack,
            experimental_config=config,
        ) as prof:
            program()
    ours = make_event_list(
        trace_of(prof), profile_memory=True, with_flops=True, with_stack=with_stack
    )
    return prof, ours


@pytest.fixture(
    scope="module",
    params=[(p, False) for p in PROGRAMS] + [(p, True) for p in PROGRAMS_WITH_STACK],
    ids=lambda p: p[0].__name__ + ("_with_stack" if p[1] else ""),
)
def recorded(request):
    return record(*request.param)


def test_every_event_has_the_same_attributes(recorded):
    prof, ours = recorded
    theirs = prof.events()

    assert [event.name for event in ours] == [event.name for event in theirs]
    for name in SAME:
        different = [
            (a.name, getattr(a, name), getattr(b, name))
            for a, b in zip(theirs, ours, strict=True)
            if signed(getattr(a, name)) != signed(getattr(b, name))
        ]
        assert different == [], name


def signed(value):
    """torch says 2**64 - 1 for a thread that ran no operator; our ids end at the largest int64."""
    return min(value, 2**63 - 1) if isinstance(value, int) else value


def test_times_are_the_same(recorded):
    prof, ours = recorded

    for a, b in zip(prof.events(), ours, strict=True):
        assert b.time_range.start == pytest.approx(a.time_range.start, abs=1e-6)
        assert b.cpu_time_total == pytest.approx(a.cpu_time_total, abs=1e-6)
        assert b.self_cpu_time_total == pytest.approx(a.self_cpu_time_total, abs=1e-6)


def test_parents_and_children_are_the_same(recorded):
    prof, ours = recorded
    theirs = prof.events()
    place = {id(event): i for i, event in enumerate(theirs)}
    our_place = {id(event): i for i, event in enumerate(ours)}

    for a, b in zip(theirs, ours, strict=True):
        assert [place[id(c)] for c in a.cpu_children] == [our_place[id(c)] for c in b.cpu_children]
        assert (a.cpu_parent is None) == (b.cpu_parent is None)
        if a.cpu_parent is not None:
            assert place[id(a.cpu_parent)] == our_place[id(b.cpu_parent)]


def test_operations_are_the_same_where_torch_counts_any(recorded):
    prof, ours = recorded

    for a, b in zip(prof.events(), ours, strict=True):
        if a.flops:
            assert b.flops == a.flops, (a.name, a.input_shapes)


@pytest.mark.parametrize(
    "grouping",
    [
        {},
        {"group_by_input_shape": True},
        {"group_by_overload_name": True},
        {"group_by_stack_n": 3},
        {"group_by_input_shape": True, "group_by_stack_n": 1, "group_by_overload_name": True},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sort_by": "count", "row_limit": -1},
        {"sort_by": "self_cpu_memory_usage", "header": "title", "max_name_column_width": 20},
        {"top_level_events_only": True, "time_unit": "ms", "max_shapes_column_width": 20},
        {"max_src_column_width": 30, "row_limit": 5},
    ],
    ids=str,
)
def test_tables_are_the_same(recorded, grouping, options):
    prof, ours = recorded
    theirs = prof.key_averages(**grouping)
    values = list(grouping.items())
    mine = ours.key_averages(
        **{k.replace("input_shape", "input_shapes"): value for k, value in values}
    )
    # Operations have their own test; torch prints them under the wrong title beside stacks.
    theirs._with_flops = mine._with_flops = False

    assert_same_text(mine.table(**options), theirs.table(**options))


def test_tables_of_single_events_are_the_same(recorded):
    prof, ours = recorded
    theirs = prof.events()
    theirs._with_flops = ours._with_flops = False

    assert_same_text(ours.table(row_limit=30), theirs.table(row_limit=30))
    ours._with_flops = True


def test_total_averages_are_the_same(recorded):
    prof, ours = recorded
    a, b = prof.events().total_average(), ours.total_average()

    assert (b.key, b.count, b.cpu_memory_usage) == (a.key, a.count, a.cpu_memory_usage)
    assert b.self_cpu_time_total == pytest.approx(a.self_cpu_time_total)
    assert ours.self_cpu_time_total == pytest.approx(prof.profiler.self_cpu_time_total)


def weighed(path):
    """Lines of a file of collapsed stacks: the stack, and its weight."""
    lines = [line.rpartition(" ") for line in path.read_text().splitlines()]
    return [(stack, int(weight)) for stack, _, weight in lines]


def test_collapsed_stacks_are_the_same(tmp_path):
    prof, ours = record(differentiate_mlp, with_stack=True)

    prof.export_stacks(str(tmp_path / "theirs.txt"), "self_cpu_time_total")
    ours.export_stacks(tmp_path / "ours.txt", "self_cpu_time_total")

    theirs, mine = weighed(tmp_path / "theirs.txt"), weighed(tmp_path / "ours.txt")
    assert len(mine) > 20
    for some, others in ((theirs, mine), (mine, theirs)):
        # What took about a microsecond may be none after rounding, and is left out then.
        missing = Counter(stack for stack, weight in some if weight > 1)
        missing -= Counter(stack for stack, _ in others)
        assert not missing
    both = [sum(weight for _, weight in weights) for weights in (theirs, mine)]
    assert both[0] == pytest.approx(both[1], abs=len(mine))


NUMBER = re.compile(r"-?\d+\.\d+")


def assert_same_text(ours, theirs):
    """Equal but for the last digit of decimal numbers, and for what opscope adds below."""
    mine = [line for line in ours.splitlines() if not line.startswith("FLOPs: ")]
    expected = theirs.splitlines()
    assert [NUMBER.sub("#", line) for line in mine] == [NUMBER.sub("#", line) for line in expected]
    for a, b in zip(expected, mine, strict=True):
        for x, y in zip(NUMBER.findall(a), NUMBER.findall(b), strict=True):
            assert float(x) == pytest.approx(float(y), abs=0.0101 if "%" in a else 0.00101)
