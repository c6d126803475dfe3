"""opscope and torch.profiler record the same program: everything but times must agree."""

import re
import warnings

import pytest
import torch
from torch.profiler import profile as torch_profile

import opscope
from programs import torch_programs
from programs.torch_programs import PROGRAMS
from support.recorded import without_collections
from support.structure import differences, structure

# torch leaves out the text of lists of more numbers than this; opscope keeps it.
LONGEST_LIST_OF_TORCH = 30


def recorded_by(profiler, program, **options):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with without_collections(), profiler(record_shapes=True, **options) as prof:
            program()
    return prof


def without_long_lists(events):
    for event in events:
        event.concrete_inputs = [
            None if isinstance(value, list) and len(value) > LONGEST_LIST_OF_TORCH else value
            for value in event.concrete_inputs
        ]
    return events


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda program: program.__name__)
def both(request):
    program = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):  # TorchScript optimises on its second run
            program()
    return recorded_by(opscope.profile, program), recorded_by(torch_profile, program)


def test_names_nesting_shapes_and_values_agree_and_nothing_is_lost(both):
    ours, theirs = both
    expected = structure(theirs.events())
    assert expected
    assert differences(structure(without_long_lists(ours.events())), expected) == []

    ours, _ = both
    ledger = ours.trace.ledger["events"]
    assert ledger["requested"] == ledger["recorded"] == len(ours.trace.events)
    assert ledger["dropped: memory budget"] == 0
    assert ledger["unfinished"] == 0
    assert ours.trace.ledger["arguments"]["dropped: unreadable"] == 0
    assert "fault" not in ours.trace.metadata

    events, end_ns = both[0].trace.events, both[0].trace.end_ns
    nested = (events["parent"] >= 0) & ~events["is_async"]
    parent = events["parent"][nested]
    assert (events["thread"][nested] == events["thread"][parent]).all()
    assert (events["start_ns"][nested] >= events["start_ns"][parent]).all()
    assert (end_ns[nested] <= end_ns[parent]).all()

    events = both[0].events()
    assert not any(event.is_async for event in events)
    top_level = [event for event in events if event.cpu_parent is None]
    total = sum(event.self_cpu_time_total for event in events)
    assert total == pytest.approx(sum(event.cpu_time_total for event in top_level), abs=1)


NUMBER = re.compile(r"-?\d+\.\d+(?:[num]?s|%)?|-+| +")


@pytest.mark.parametrize(
    ("grouping", "options"),
    [
        ({}, {"header": "title", "max_name_column_width": 20}),
        ({"group_by_input_shape": True}, {"row_limit": -1, "max_shapes_column_width": 20}),
        ({}, {"top_level_events_only": True, "time_unit": "ms"}),
    ],
    ids=str,
)
def test_tables_are_torchs_but_for_times(grouping, options):
    """Which rows there are, in which order, how often each was called and what it allocated."""
    tables = []
    for profiler in (opscope.profile, torch_profile):
        prof = recorded_by(profiler, torch_programs.convolution, profile_memory=True)
        rows = prof.key_averages(**grouping)
        rows._with_flops = False
        tables.append(rows.table(sort_by="count", **options).splitlines())
    ours, theirs = ([NUMBER.sub(" ", line) for line in table] for table in tables)
    assert ours[: len(theirs)] == theirs  # below there is what was lost


@pytest.fixture
def process_group():
    from torch import distributed

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield distributed
    distributed.destroy_process_group()


def test_work_of_collectives_is_asynchronous_as_in_torch(process_group):
    def program():
        tensor = torch.ones(4)
        process_group.all_reduce(tensor, async_op=True).wait()
        process_group.broadcast(tensor, 0)
        process_group.barrier()

    def shown(prof):
        return sorted(
            (event.name, event.is_async, event.is_user_annotation)
            for event in prof.events()
            if event.name.startswith(("gloo:", "c10d::"))
        )

    program()
    ours, theirs = recorded_by(opscope.profile, program), recorded_by(torch_profile, program)
    assert shown(ours) == shown(theirs)
    assert ("gloo:all_reduce", True, True) in shown(ours)
    # On another thread, so it takes nothing from what called it.
    assert all(event.self_cpu_time_total == 0 for event in ours.events() if event.is_async)


def test_a_table_has_rows_of_overloads_says_what_formulas_cover_and_refuses_unknown_units():
    # Not torch's object: torch 2.6 does not have this switch.
    config = {"capture_overload_names": True}
    with opscope.profile(experimental_config=config, with_flops=True, record_shapes=True) as prof:
        torch.pow(torch.ones(2), 2)
        torch.pow(torch.ones(2), torch.ones(2))
        torch.ones(3, 4) @ torch.ones(4, 5)
    rows = prof.key_averages(group_by_overload_name=True)
    assert {row.overload_name: row.count for row in rows if row.key == "aten::pow"} == {
        "Tensor_Scalar": 1,
        "Tensor_Tensor": 1,
    }
    found = re.search(r"FLOPs: formulas cover (\d+\.\d)% of operator time", prof.events().table())
    assert found is not None and 0 < float(found[1]) <= 100
    with pytest.raises(opscope.UsageError, match=r"'min'.*s, ms, us"):
        rows.table(time_unit="min")
