"""Real jobs of every kind of parallelism: who is slow, that nothing is lost, nothing is changed."""

from pathlib import Path

import pytest

import opscope
from opscope.columns.causes import Cause
from opscope.storage.partition import RANK, Partition
from support.gloo_jobs import run_gloo_job
from support.recorded import steps_of

torch = pytest.importorskip("torch", reason="runs jobs of torch.distributed")

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo",
)

PROGRAM = Path(__file__).parents[1] / "programs" / "parallel_job.py"
STEPS, RANKS, SLOW = 16, 3, 1
# Before 2.7 a torch built for CUDA has no FSDP on processors.
FSDP = () if torch.__version__ < "2.7" and torch.version.cuda else ("fsdp",)
WAYS = ("ddp", *FSDP, "tensor")


def torchrun(*arguments, recorder=()):
    """Runs the program in all ranks; gives the finished process of what was started."""
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    command = [*(recorder or ()), *launcher, PROGRAM, *arguments]
    return run_gloo_job(command, OMP_NUM_THREADS="1")


def results(done, way):
    return sorted(line for line in done.stdout.splitlines() if line.startswith(f"{way}, "))


@pytest.fixture(scope="module")
def unrecorded():
    return torchrun(",".join(WAYS), str(SLOW))


@pytest.fixture(scope="module")
def recorded_by_itself(tmp_path_factory):
    folder = tmp_path_factory.mktemp("by_itself")
    return folder, torchrun(",".join(WAYS), str(SLOW), str(folder))


@pytest.fixture(scope="module")
def recorded_from_outside(tmp_path_factory):
    folder = tmp_path_factory.mktemp("from_outside") / "job"
    recorder = ("-m", "opscope", "run", "--children", "--why", "-o", str(folder))
    return folder, torchrun("ddp", str(SLOW), recorder=recorder)


@pytest.mark.parametrize("way", WAYS)
def test_every_rank_is_recorded_and_computes_the_same_and_the_slow_one_is_named(
    recorded_by_itself, way, unrecorded
):
    folder, _ = recorded_by_itself
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
    folder, _ = recorded_by_itself
    found = opscope.load(folder / way).slow_ranks()
    assert [slow.process for slow in found.found] == [Partition(RANK, SLOW)], found
    (slow,) = found.found
    assert slow.is_always and slow.waited_ns > 0 and slow.gain_ns > 0
    assert slow.excess.phase == "forward"
    if slow.cause is Cause.TIMER:  # on a busy machine it waits longer for a processor
        assert slow.excess.place == f"{PROGRAM}:{line_of_sleep()}"

    _, done = recorded_by_itself
    assert len(results(done, way)) == RANKS
    assert results(done, way) == results(unrecorded, way)


def line_of_sleep():
    lines = PROGRAM.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if "time.sleep" in line)


def test_a_job_that_is_recorded_from_outside_is_the_same_and_its_slow_rank_is_named(
    unrecorded, recorded_from_outside
):
    _, done = recorded_from_outside
    assert results(done, "ddp") == results(unrecorded, "ddp")
    of_program = [line for line in done.stdout.splitlines() if not line.startswith("[Gloo]")]
    assert len(of_program) == RANKS  # opscope says nothing there

    folder, _ = recorded_from_outside
    job = opscope.load(folder)
    assert job.ranks == list(range(RANKS)) and job.missing_ranks() == ""
    assert len(job) == RANKS + 1  # and who started them
    assert [steps_of(job[rank]) >= 5 for rank in job.ranks] == [True] * RANKS

    folder, done = recorded_from_outside
    (slow,) = opscope.load(folder).slow_ranks().found
    assert slow.process == Partition(RANK, SLOW)
    assert f"opscope: {slow}" in done.stderr
    assert f"(rank {SLOW}), because the others wait for it" in done.stderr
    assert f" of {RANKS + 1} processes completed warm-up" in done.stderr
