"""Processes: forked in the middle of a recording, spawned, replaced, workers of data loaders."""

import multiprocessing

import pytest
import torch

import opscope
from support.recorded import names, record
from support.torch_processes import run_torch
from torture.children import in_child

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

OPTIONS = {"record_shapes": True, "profile_memory": True, "with_modules": True, "with_stack": True}


def test_what_a_child_does_with_its_parents_profile():
    prof = opscope.profile(**OPTIONS)

    def child():
        prof.stop()
        with prof:
            torch.zeros(1)
        assert "aten::zeros" in names(prof.trace)

    prof.start()
    torch.ones(1)
    in_child(child)
    prof.stop()
    assert "aten::ones" in names(prof.trace) and "aten::zeros" not in names(prof.trace)


def test_spawned_processes_know_nothing_of_it():
    # A script, because a spawned process imports the main module.
    done = run_torch(
        "-c",
        """
import torch, opscope
from torch.multiprocessing import get_context
from statistics import median
if __name__ == "__main__":
    with opscope.profile(record_shapes=True, with_stack=True) as prof:
        with get_context("spawn").Pool(1) as pool:
            print(pool.map(median, [[1, 2, 3]]))
        torch.ones(1)
    names = [prof.trace.event_name(row) for row in range(len(prof.trace.events))]
    print("aten::ones" in names)
""",
    )
    assert done.stdout.split("\n")[:2] == ["[2]", "True"], done.stderr


def squares():
    return torch.utils.data.TensorDataset(torch.arange(12.0) ** 2)


def test_workers_of_a_data_loader():
    loader = torch.utils.data.DataLoader(squares(), batch_size=3, num_workers=2)
    seen = []
    trace = record(lambda: seen.extend(batch for (batch,) in loader), **OPTIONS)
    assert torch.equal(torch.cat(seen), torch.arange(12.0) ** 2)
    name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    assert names(trace).count(name) == 5
    assert trace.ledger["events"]["ends without a start"] == 0
    assert not multiprocessing.active_children()
