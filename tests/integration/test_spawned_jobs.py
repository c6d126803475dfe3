"""A job that its own program starts, whose ranks talk to each other from several threads."""

from pathlib import Path

import numpy as np
import pytest

import opscope
from opscope.analysis.collectives.calls import NONE
from opscope.columns.causes import Cause
from support.gloo_jobs import run_gloo_job

torch = pytest.importorskip("torch", reason="runs jobs of torch.distributed")

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo",
)

PROGRAM = Path(__file__).parents[1] / "programs" / "spawned_job.py"
RANKS, STEPS, OTHERS, SLOW = 2, 16, 6, 1


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spawned") / "job"
    recorder = ["-m", "opscope", "run", "--children", "--shapes", "-o", str(folder)]
    run_gloo_job([*recorder, PROGRAM, str(SLOW)])
    return opscope.load(folder)


def test_its_ranks_are_compared_however_they_were_started(job):
    ranks = [job[part].metadata["distributedInfo"]["rank"] for part in job.compared]
    assert sorted(ranks) == list(range(RANKS))
    (slow,) = job.slow_ranks().found
    assert job[slow.process].metadata["distributedInfo"]["rank"] == SLOW
    assert slow.cause is Cause.TIMER


def test_collectives_of_all_threads_find_those_of_other_ranks(job):
    found = job.collectives()
    assert not any(found.unmatched.values())
    is_reduced = np.array(found.name) == "allreduce"
    sizes = {"beside": 50 * 4, "gradients": (32 * 32 + 32) * 4}
    counts = {name: is_reduced & (found.size_bytes == size) for name, size in sizes.items()}
    assert {name: int(rows.sum()) for name, rows in counts.items()} == {
        "beside": OTHERS,
        "gradients": STEPS,
    }
    assert (np.bincount(found.collective) == RANKS).all()
    assert (found.transfer_ns != NONE).all()
    last = [found.known_ranks[row] for row in found.last[counts["gradients"]]]
    assert last.count(SLOW) > STEPS // 2
