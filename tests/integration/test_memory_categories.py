"""Memory accounts against torch's over the same recording, and over time."""

from __future__ import annotations

import gc
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch.profiler._memory_profiler import MemoryProfile  # noqa: E402

import opscope  # noqa: E402
import opscope.drop_in  # noqa: E402
from opscope.analysis.memory.categories import memory_accounts  # noqa: E402
from opscope.analysis.memory.over_time import memory_over_time  # noqa: E402
from opscope.analysis.memory.peak import memory_at_peak  # noqa: E402
from support.memory_programs import PROGRAMS  # noqa: E402

EVERYTHING = {"record_shapes": True, "profile_memory": True, "with_stack": True}

# torch does not know the size of a tensor it only saw in a sparse layout, and fails.
NO_TIMELINE = {"sparse_tensors"}


def run(name, profiler=None):
    """Records a program from a fixed state."""
    torch.manual_seed(0)
    program = PROGRAMS[name]()
    gc.collect()
    with warnings.catch_warnings(), (profiler or opscope.profile)(**EVERYTHING) as prof:
        warnings.simplefilter("ignore")
        program()
    return prof


@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_with_torchs_rules_on_the_same_recording(name):
    with opscope.drop_in.install():
        prof = run(name, torch.profiler.profile)
        found, expected = prof._memory_profile(), MemoryProfile(prof.profiler.kineto_results)
        assert found._category_snapshot() == expected._category_snapshot()
        if name not in NO_TIMELINE:
            assert found.timeline == expected.timeline


def test_programs_cover_every_category():
    seen = set()
    for name in ("adam_after_a_step", "backward_of_modules"):
        accounts = memory_accounts(run(name).trace)
        seen |= set(accounts.categories.of_version.tolist())

    assert seen == set(range(8))


@pytest.mark.parametrize("name", ["adam_after_a_step", "views_and_changes_in_place"])
def test_memory_over_time_adds_up_and_is_what_the_peak_says(name):
    trace = run(name).trace

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
