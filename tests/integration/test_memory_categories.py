"""Memory accounts against torch's: over the same recording, and over torch's own."""

from __future__ import annotations

import gc
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.profiler import _memory_profiler  # noqa: E402

import opscope  # noqa: E402
import opscope.drop_in  # noqa: E402
from opscope.analysis.memory.categories import memory_accounts  # noqa: E402
from opscope.analysis.memory.over_time import memory_over_time  # noqa: E402
from opscope.analysis.memory.peak import memory_at_peak  # noqa: E402
from opscope.torch_api.drop_in.backend.result import ProfilerResult  # noqa: E402
from support.memory_programs import PROGRAMS  # noqa: E402
from support.memory_reference import empty_blocks, our_reference, torch_reference  # noqa: E402

EVERYTHING = {"record_shapes": True, "profile_memory": True, "with_stack": True}

# torch does not know the size of a tensor it only saw in a sparse layout, and fails.
NO_TIMELINE = {"embeddings_with_sparse_gradients", "sparse_tensors"}

# torch takes all tensors without memory (sparse, nested, or not yet allocated) for one and the
# same tensor, and with it whatever their memory is later; opscope tells them apart.
WITHOUT_MEMORY = {
    "lazy_modules", "attention", "embeddings_with_sparse_gradients", "views_and_changes_in_place",
    "sparse_tensors", "nested_tensors",
}  # fmt: skip


def run(name, profiler):
    """Records a program from a fixed state."""
    torch.manual_seed(0)
    program = PROGRAMS[name]()
    gc.collect()
    with warnings.catch_warnings(), profiler(**EVERYTHING) as prof:
        warnings.simplefilter("ignore")
        program()
    return prof


def mistaken(reference):
    """Frees in which torch may have taken a block from before the recording for an older one.

    It knows the size of a block if one at that address was recorded earlier, and its end was not.
    """
    empty = [n for n in reference.nodes if not (n.inputs or n.outputs or n.intermediates)]
    return len(empty), [entry[1:] for entry in reference.timeline if entry[2] is None]


@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_torchs_rules_on_the_same_recording(name):
    trace = run(name, opscope.profile).trace
    with opscope.drop_in.install():
        profile = _memory_profiler.MemoryProfile(ProfilerResult(lambda: trace, {}))
        expected = torch_reference(profile, with_timeline=name not in NO_TIMELINE)

    found = our_reference(memory_accounts(trace))

    assert found.nodes == expected.nodes
    assert {key: found.categories[key] for key in expected.categories} == expected.categories
    if name not in NO_TIMELINE:
        assert found.timeline == expected.timeline


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in WITHOUT_MEMORY])
def test_agrees_with_what_torch_makes_of_its_own_recording(name):
    run(name, torch.profiler.profile)  # what is made once in a process is made by now
    elsewhere = []
    for _ in range(40):
        expected = torch_reference(run(name, torch.profiler.profile)._memory_profile())
        accounts = memory_accounts(run(name, opscope.profile).trace)
        found, empty = our_reference(accounts), empty_blocks(accounts)
        if mistaken(found) == mistaken(expected):
            break
        elsewhere += [torch.empty(size) for size in (4, 16, 64, 128) for _ in range(8)]

    assert found.nodes == expected.nodes
    beyond = found.categories.keys() - expected.categories.keys()
    assert {block for block, _ in beyond} <= empty
    assert not any(found.categories.pop(version) for version in beyond)
    assert found.categories == expected.categories
    # All but the times, which are those of two runs.
    assert [entry[1:] for entry in found.timeline] == [entry[1:] for entry in expected.timeline]


def test_programs_cover_every_category():
    seen = set()
    for name in ("adam_after_a_step", "backward_of_modules"):
        accounts = memory_accounts(run(name, opscope.profile).trace)
        seen |= set(accounts.categories.of_version.tolist())

    assert seen == set(range(8))


@pytest.mark.parametrize(
    "name", ["adam_after_a_step", "backward_of_modules", "views_and_changes_in_place"]
)
def test_memory_over_time_adds_up_and_is_what_the_peak_says(name):
    trace = run(name, opscope.profile).trace

    (memory,) = memory_over_time(trace)

    parts = memory.by_category
    assert parts is not None
    assert parts.size_bytes.min(initial=0) >= 0
    assert parts.size_bytes.sum(axis=1).tolist() == memory.total_bytes.tolist()
    assert memory.by_phase.size_bytes.sum(axis=1).tolist() == memory.total_bytes.tolist()
    peak = memory_at_peak(trace, "cpu")
    at_peak = dict(zip(parts.names, parts.size_bytes[memory.at_peak].tolist(), strict=True))
    held = {group.name: group.size_bytes for group in peak.by_category}
    assert {name: size for name, size in at_peak.items() if size} == held
