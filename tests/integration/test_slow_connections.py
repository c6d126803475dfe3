"""A rank whose connections carry little keeps all others waiting alike, and is named for it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import opscope
from opscope.trace.partition import RANK, Partition
from opscope.trace.sending import read_sending
from support.gloo_jobs import run_gloo_job

torch = pytest.importorskip("torch", reason="runs jobs of torch.distributed")

pytestmark = [
    pytest.mark.skipif(
        not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
        reason="this torch has no gloo",
    ),
    pytest.mark.skipif(sys.platform != "linux", reason="no other kernel counts it so"),
]

PROGRAM = Path(__file__).parents[1] / "programs" / "paced_job.py"
RANKS, SLOW = 3, 1


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paced") / "job"
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(RANKS)]
    recorder = ["-m", "opscope", "run", "--children", "-o", str(folder)]
    command = [sys.executable, *recorder, *launcher, PROGRAM, str(SLOW)]
    run_gloo_job(command, OMP_NUM_THREADS="1")
    return folder


def test_the_rank_that_sends_slowly_is_named(job):
    found = opscope.load(job).slow_ranks()
    (slow,) = found.senders
    assert slow.process == Partition(RANK, SLOW)
    assert 0 < slow.gain_ns < slow.step_ns
    assert str(slow) in found.sentences()


def test_what_was_seen_of_connections_is_in_what_each_rank_recorded(job):
    seen = {part: read_sending(trace.metadata) for part, trace in opscope.load(job).traces()}
    shares = [seen[Partition(RANK, rank)].share for rank in range(RANKS)]
    assert max(shares) == shares[SLOW] > 0


def answer(command, *arguments):
    ran = [sys.executable, "-m", "opscope", command, *map(str, arguments)]
    return subprocess.run(ran, capture_output=True, text=True, check=True, timeout=300).stdout


@pytest.mark.parametrize("command", ["stragglers", "why"])
def test_commands_say_it_in_the_same_words(job, command):
    (slow,) = opscope.load(job).slow_ranks().senders
    assert str(slow) in " ".join(answer(command, job).split())


def test_a_table_has_it_beside_the_rank(job):
    (slow,) = opscope.load(job).slow_ranks().senders
    assert f"| {slow.process} | {slow} |" in answer("stragglers", job, "--format", "md")


def test_json_has_it(job):
    (slow,) = opscope.load(job).slow_ranks().senders
    said = json.loads(answer("stragglers", job, "--format", "json"))
    assert said["slow_senders"] == [slow.as_dict()]
