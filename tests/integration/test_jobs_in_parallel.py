"""Real jobs of every kind of parallelism: who is slow, that nothing is lost, nothing is changed."""

from pathlib import Path

import pytest

import opscope
from opscope.columns.causes import Cause
from opscope.storage.partition import RANK, Partition
from support.gloo_jobs import run_ranks
from support.recorded import steps_of

torch = pytest.importorskip("torch", reason="runs jobs of torch.distributed")

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo",
)

PROGRAM = Path(__file__).parents[1] / "programs" / "parallel_job.py"
STEPS, RANKS, SLOW = 16, 2, 1
# Before 2.7 a torch built for CUDA has no FSDP on processors.
FSDP = () if torch.__version__ < "2.7" and torch.version.cuda else ("fsdp",)
WAYS = ("ddp", *FSDP, "tensor")


def results(done, way):
    return sorted(line for line in done.stdout.splitlines() if line.startswith(f"{way}, "))


@pytest.fixture(scope="module")
def by_itself(tmp_path_factory):
    """Where its ranks saved what they recorded, and the finished job."""
    folder = tmp_path_factory.mktemp("by_itself")
    return folder, run_ranks(PROGRAM, RANKS, ",".join(WAYS), SLOW, folder)


@pytest.mark.parametrize("way", WAYS)
def test_every_rank_is_recorded_and_computes_the_same_and_the_slow_one_is_named(by_itself, way):
    folder, done = by_itself
    job = opscope.load(folder / way)
    assert job.ranks == list(range(RANKS)) and job.missing_ranks() == ""
    for _, trace in job.traces():
        assert steps_of(trace) == STEPS
        assert trace.metadata["distributedInfo"]["world_size"] == RANKS
        assert not any(
            count
            for source in trace.ledger.values()
            for what, count in source.items()
            if what.startswith("dropped")
        )

    # All ways of parallelism wait for each other by other operators, which are no work.
    found = opscope.load(folder / way).slow_ranks()
    assert [slow.process for slow in found.found] == [Partition(RANK, SLOW)], found
    (slow,) = found.found
    assert slow.is_always and slow.waited_ns > 0 and slow.gain_ns > 0
    assert slow.excess.phase == "forward"
    if slow.cause is Cause.TIMER:  # on a busy machine it waits longer for a processor
        assert slow.excess.place == f"{PROGRAM}:{line_of_sleep()}"

    assert len(set(results(done, way))) == RANKS == len(results(done, way)) // 2


def line_of_sleep():
    lines = PROGRAM.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if "time.sleep" in line)
