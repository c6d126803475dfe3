"""Memory of real programs: events, sums by operator, failures, timelines, and the peak."""

from __future__ import annotations

import gc
import gzip
import json
import warnings

import pytest

torch = pytest.importorskip("torch")


import opscope  # noqa: E402
import opscope.drop_in  # noqa: E402
from opscope.analysis.memory.peak import ALLOCATED_BEFORE  # noqa: E402
from opscope.errors import MissingDependencyError, UsageError  # noqa: E402
from opscope.timeline.tree.node import MemoryDetail, NodeKind  # noqa: E402
from programs import torch_programs  # noqa: E402

MEMORY = {"profile_memory": True}
EVERYTHING = {**MEMORY, "record_shapes": True, "with_stack": True}


def profiled(profiler, program, **options):
    gc.collect()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            with profiler(**options) as prof:
                program()
    finally:
        gc.enable()
    return prof


def sums(prof):
    """Bytes by operator: total and own, and how often."""
    return {
        row.key: (row.cpu_memory_usage, row.self_cpu_memory_usage, row.count)
        for row in prof.key_averages()
        if row.cpu_memory_usage or row.self_cpu_memory_usage
    }


@pytest.mark.parametrize(
    "program",
    [
        torch_programs.train_with_adamw, torch_programs.convolution, torch_programs.attention,
        torch_programs.views_and_mutation, torch_programs.kinds_of_tensor,
        torch_programs.checkpointed_and_hooked, torch_programs.torchscript,
    ],
    ids=lambda program: program.__name__,
)  # fmt: skip
def test_bytes_by_operator_are_torchs(program):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            program()

    expected = sums(profiled(torch.profiler.profile, program, **MEMORY))

    assert expected
    ours = sums(profiled(opscope.profile, program, **MEMORY))
    if ours != expected:
        again = [sums(profiled(torch.profiler.profile, program, **MEMORY)) for _ in range(10)]
        if any(one != expected for one in again):
            pytest.skip("this torch's own sums of bytes by operator are others each time")
    assert ours == expected


def out_of_memory():
    with pytest.raises(RuntimeError, match="allocate"):
        torch.empty(1 << 50, dtype=torch.uint8)  # more than an address has bits for


def test_a_failed_allocation_is_an_event_and_no_memory():
    expected = profiled(torch.profiler.profile, out_of_memory, **MEMORY)
    prof = profiled(opscope.profile, out_of_memory, **MEMORY)

    (failed,) = (n for n in prof.trace.tree().depth_first() if n.kind is NodeKind.OUT_OF_MEMORY)

    assert failed.name == "[OutOfMemory]" and failed.parent.name == "aten::empty"
    assert isinstance(failed.detail, MemoryDetail)
    assert (failed.detail.size_bytes, failed.detail.address) == (1 << 50, 0)
    assert (failed.detail.allocation_id, failed.detail.tensor_id) == (-1, -1)
    assert [event.name for event in prof.events()] == [event.name for event in expected.events()]
    assert sums(prof) == sums(expected) == {}


def test_every_free_has_the_size_of_its_allocation_and_totals_add_up():
    def program():
        for size in (3, 100, 1000):
            torch.ones(size).neg()

    prof = profiled(opscope.profile, program, **MEMORY)
    (row,) = (row for row in prof.key_averages() if row.key == "[memory]")  # outside operators
    assert (row.count, row.cpu_memory_usage) == (6, -8 * 1103)
    table = prof.trace.table("allocations")
    size, total = table["size_bytes"], table["total_allocated_bytes"].astype("int64")

    assert sorted(size[size > 0].tolist()) == sorted((-size[size < 0]).tolist())
    assert size.sum() == 0 and len(size) == 12
    assert (total[1:] - total[:-1]).tolist() == size[1:].tolist()


class Net(torch.nn.Module):
    """Two layers with something in between."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 64), torch.nn.Linear(64, 4)

    def forward(self, x):
        """The result."""
        return self.second(self.first(x).relu())


def training():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())

    def step():
        optimizer.zero_grad()
        model(torch.rand(32, 8)).square().mean().backward()
        optimizer.step()

    return step


@pytest.fixture(scope="module")
def trained():
    step = training()
    step()
    return profiled(opscope.profile, lambda: [step() for _ in range(3)], **EVERYTHING)


def read(path):
    opener = gzip.open if path.name.endswith(".gz") else open
    with opener(path, "rt") as file:
        return json.load(file)


def test_the_page_needs_nothing_else_and_has_every_category(trained, tmp_path):
    trained.export_memory_timeline(tmp_path / "memory.html", device="cpu")

    page = (tmp_path / "memory.html").read_text()

    assert page.count("<path") >= 6
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    for name in ("Parameter", "Optimizer state", "Input", "Activation", "Gradient"):
        assert name in page


def test_without_matplotlib_it_says_what_to_do(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)

    with pytest.raises(MissingDependencyError, match=r"pip install matplotlib, or write an \.html"):
        trained.export_memory_timeline(tmp_path / "memory.png")


def test_what_makes_no_timeline_is_refused(trained, tmp_path):
    prof = profiled(opscope.profile, lambda: torch.ones(3), profile_memory=True)
    with pytest.raises(UsageError, match="record_shapes=True, with_stack=True required"):
        prof.export_memory_timeline(tmp_path / "memory.json")
    with pytest.raises(UsageError, match="no memory events on 'cuda:3', but on: cpu"):
        trained.export_memory_timeline(tmp_path / "memory.json", device="cuda:3")


def allocated_after(trace, time_ns):
    """How many allocations follow: says which moment is meant, whatever the clock of the trace."""
    allocations = trace.table("allocations")
    return int(((allocations["time_ns"] > time_ns) & (allocations["size_bytes"] > 0)).sum())


def test_the_peak_of_a_recording_that_began_late_is_exact():
    # GIVEN two recordings of the same program, one of which missed the beginning
    gc.collect()
    with opscope.profile(**EVERYTHING) as whole:
        step = training()
        step()
        with opscope.profile(**EVERYTHING) as late:
            for _ in range(3):
                step()
        del step
    first, second = whole.trace.peak_memory(), late.trace.peak_memory()

    # THEN both find the same moment, and as much in use
    assert allocated_after(late.trace, second.time_ns) == allocated_after(
        whole.trace, first.time_ns
    )
    assert second.total_bytes == first.total_bytes
    since = first.blocks.allocated_ns >= late.trace.metadata["start_ns"]
    assert second.before_bytes == first.blocks.size_bytes[~since].sum() > 0
    assert (second.unseen_bytes, first.before_bytes) == (0, 0)

    # AND the one that saw everything says what the other could not: who allocated it
    held = 4 * (8 * 64 + 64 + 64 * 4 + 4)
    assert {
        group.name: group.before_bytes for group in second.by_category if group.before_bytes
    } == {
        "parameter": held,
        "optimizer state": 2 * held + 4 * 4,  # two averages each, and how many steps
    }
    late_groups = {group.name: group.size_bytes for group in second.by_operator}
    assert late_groups.pop(ALLOCATED_BEFORE) == second.before_bytes
    assert late_groups.items() <= {g.name: g.size_bytes for g in first.by_operator}.items()


def test_the_peak_by_module_and_function(trained):
    peak = trained.trace.peak_memory()
    modules = {group.name: group.size_bytes for group in peak.by_module}

    assert modules["first (Linear)"] > 0 and modules["second (Linear)"] > 0
    assert any("test_memory_events.py" in group.name for group in peak.by_stack)
    for groups in (peak.by_category, peak.by_module, peak.by_operator, peak.by_stack):
        assert sum(group.size_bytes for group in groups) == peak.total_bytes
        assert sum(group.before_bytes for group in groups) == peak.before_bytes
