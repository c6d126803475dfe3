"""Processes of a program that runs are added up as they are saved, however that happens."""

import json

import pytest
import torch

import opscope
from opscope.api.job import Job
from opscope.jobs.rollup.read import Rollup
from opscope.storage.manifest import ROLLUP
from opscope.storage.partition import partition_folders
from support.torch_processes import run_torch

PROGRAM = """
import os, torch
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
forked = os.fork()
for _ in range(6):
    optimizer.zero_grad()
    model(torch.ones(8, 16)).sum().backward()
    optimizer.step()
if not forked:
    os._exit(0)
os.wait()
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def run(*arguments, **environment):
    done = run_torch("-m", "opscope", "run", *arguments, added=environment)
    assert done.returncode == 0, done.stderr


def test_children_have_rollups_that_say_what_their_traces_do(program, tmp_path):
    folder = tmp_path / "job"
    run("--children", "-o", folder, program)
    parts = partition_folders(folder)
    # Of a process that could not say how its operators are called, the first question makes it.
    steps, account = Job(folder).steps(), Job(folder).account()
    assert len(parts) == 2 and all(Rollup.of(part) for part in parts.values())
    assert len(steps.number) >= 4
    (min(parts.values()) / ROLLUP).unlink()
    again = Job(folder)
    assert (again.steps().table_ns == steps.table_ns).all()
    assert (again.account().shares == account.shares).all()


def test_a_rank_that_runs_on_its_own_has_one_and_a_single_process_none(program, tmp_path):
    run("-o", tmp_path / "single", program)
    (single,) = partition_folders(tmp_path / "single").values()
    assert not list(single.glob("rollup*"))
    rank = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
    run("-o", tmp_path / "job", program, **rank)
    (of_rank,) = partition_folders(tmp_path / "job").values()
    metadata = json.loads((of_rank / ROLLUP).read_text())
    assert of_rank.name == "rank=00001" and metadata["part"] == "rank=00001"
    assert Rollup.of(of_rank).table("rollup_steps")["rank"].tolist() == [1] * 5


def test_memory_is_by_what_it_was_for_where_that_is_known(tmp_path):
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with opscope.profile(profile_memory=True, record_shapes=True, with_modules=True) as recorded:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(32, 64)).relu().sum().backward()
            optimizer.step()
    part = recorded.trace.save(tmp_path, rank=0)
    table = Rollup.of(part).table("rollup_memory")
    found = dict(zip(table["category"], table["bytes"].tolist(), strict=True))
    peak = recorded.trace.peak_memory()
    assert found.pop("all") == peak.total_bytes == sum(found.values())
    assert found == {group.name: group.size_bytes for group in peak.by_category}
    assert "parameter" in found and set(table["time_ns"].tolist()) == {peak.time_ns}
