"""A job under torchrun in which one rank is killed."""

import re
import signal
from pathlib import Path

import pytest

import opscope
from opscope.cli import main
from support.recorded import steps_of
from support.torch_processes import run_torch

torch = pytest.importorskip("torch", reason="runs jobs of torch.distributed")

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo",
)

PROGRAM = Path(__file__).parents[1] / "programs" / "failing_job.py"
LAST = 20  # steps that rank 1 has done when it fails


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """The folder of its recording, and the finished process."""
    folder = tmp_path_factory.mktemp("failing") / "job"
    recorder = ["-m", "opscope", "run", "--children", "-o", str(folder)]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    return folder, run_torch(*recorder, *launcher, PROGRAM, added=environment)


def said_by_torchrun(done):
    """Each rank's exit code. A rank that raises may still be aborted (-6) while it ends, also
    where nothing is recorded: gloo's threads outlive a process group that nobody destroyed."""
    ranks = re.findall(r"rank\s*: (\d+) .*\n\s*exitcode\s*: (-?\d+)", done.stderr)
    return {int(rank): int(code) for rank, code in ranks}


def test_torchruns_exit_code_is_handed_on_and_what_ranks_did_is_there(failed):
    folder, done = failed
    assert done.returncode == 1
    expected = {
        rank: f"exited with code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
        for rank, code in said_by_torchrun(done).items()
    }
    assert expected[1] == "killed by SIGKILL", done.stderr[-3000:]
    assert "Traceback" not in done.stderr.partition("opscope: ")[2]

    job = opscope.load(folder)
    ended = {e.partition.number: e.ended for e in job.processes.entries
             if e.partition is not None and e.partition.kind == "rank"}  # fmt: skip
    assert ended.keys() == {0, 1}
    told = ended.keys() & expected.keys()  # torch 2.7 leaves out those that torchrun ended itself
    assert {rank: ended[rank] for rank in told} == {rank: expected[rank] for rank in told}
    assert job.ranks == [0, 1] and job.missing_ranks() == "" and job.unfinished == []
    assert steps_of(job[1]) == LAST
    assert LAST <= steps_of(job[0]) + 1 <= LAST + 1  # it waited for the other in the next one


def test_every_command_answers_for_what_there_is(failed, capsys):
    folder, _ = failed
    for command in ("summary", "why --all", "ranks"):
        main([*command.split(), str(folder)])
        assert "Traceback" not in capsys.readouterr().err, command
