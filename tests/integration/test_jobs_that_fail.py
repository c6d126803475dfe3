"""Jobs under torchrun in which one rank is killed, or never joins the others."""

import re
import signal
from pathlib import Path

import pytest

import opscope
from opscope.cli import main
from support.processes import run_python
from support.recorded import steps_of

torch = pytest.importorskip("torch", reason="runs jobs of torch.distributed")

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo",
)

PROGRAM = Path(__file__).parents[1] / "programs" / "failing_job.py"
LAST = 20  # steps that rank 1 has done when it fails


@pytest.fixture(scope="module", params=["kill", "absent"])
def failed(request, tmp_path_factory):
    """How it fails, the folder of its recording, and the finished process."""
    folder = tmp_path_factory.mktemp(request.param) / "job"
    recorder = ["-m", "opscope", "run", "--children", "-o", str(folder)]
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = run_python(
        *recorder,
        *launcher,
        PROGRAM,
        request.param,
        added={"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    )
    return request.param, folder, done


def said_by_torchrun(done):
    """Each rank's exit code. A rank that raises may still be aborted (-6) while it ends, also
    where nothing is recorded: gloo's threads outlive a process group that nobody destroyed."""
    ranks = re.findall(r"rank\s*: (\d+) .*\n\s*exitcode\s*: (-?\d+)", done.stderr)
    return {int(rank): int(code) for rank, code in ranks}


def test_torchruns_exit_code_is_handed_on_and_what_ranks_did_is_there(failed):
    how, _, done = failed
    assert done.returncode == 1
    failing = said_by_torchrun(done)[0 if how == "absent" else 1]
    expected = [-signal.SIGKILL] if how == "kill" else [1, -signal.SIGABRT]
    assert failing in expected, done.stderr[-3000:]
    assert "Traceback" not in done.stderr.partition("opscope: ")[2]

    how, folder, done = failed
    ended = {e.partition.number: e.ended for e in opscope.load(folder).processes.entries
             if e.partition is not None and e.partition.kind == "rank"}  # fmt: skip
    expected = {
        rank: f"exited with code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
        for rank, code in said_by_torchrun(done).items()
    }
    assert ended.keys() == ({0} if how == "absent" else {0, 1})
    told = ended.keys() & expected.keys()  # torch 2.7 leaves out those that torchrun ended itself
    assert told
    assert {rank: ended[rank] for rank in told} == {rank: expected[rank] for rank in told}


def test_what_every_rank_did_until_then_is_there(failed):
    how, folder, _ = failed
    job = opscope.load(folder)
    if how == "absent":  # rank 1 waited before it imported torch
        assert job.ranks == [0]
        assert job.missing_ranks() == "rank 1 of 2 is not in this folder"
        return
    assert job.ranks == [0, 1] and job.missing_ranks() == "" and job.unfinished == []
    assert steps_of(job[1]) == LAST
    assert LAST <= steps_of(job[0]) + 1 <= LAST + 1  # it waited for the other in the next one


def test_every_command_answers_for_what_there_is(failed, tmp_path, capsys):
    how, folder, _ = failed
    for command in ("summary", "why", "why --all", "ranks", "report", "export", "sql"):
        more = {
            "report": ["-o", str(tmp_path / "page.html")],
            "export": ["-o", str(tmp_path / "all.json.gz")],
            "sql": ["select rank, count(*) from events group by rank"],
        }.get(command, [])
        main([*command.split(), str(folder), *more])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err, command
        if how == "absent" and command in ("summary", "why", "ranks", "report"):
            assert "rank 1 of 2 is not in this folder" in printed.err, command
