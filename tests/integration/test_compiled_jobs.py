"""Of a real job, ranks are put side by side: what they compiled, and what their operators reach."""

import json
from pathlib import Path

import pytest

import opscope
from opscope.cli import main
from opscope.storage.manifest import rank_folders
from opscope.storage.partition import PROCESS, RANK
from opscope.storage.processes import Processes
from support.gloo_jobs import run_gloo_job
from support.recorded import count

torch = pytest.importorskip("torch", reason="runs jobs of torch.distributed")

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this torch has no gloo",
)

PROGRAM = Path(__file__).parents[1] / "programs" / "compiled_job.py"
RANKS, EAGER, STEPS = 2, 1, 6


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compiled") / "job"
    recorder = ["-m", "opscope", "run", "--children", "--shapes", "-o", folder]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    run_gloo_job([*recorder, *launcher, PROGRAM])
    assert sorted(rank_folders(folder)) == list(range(RANKS))
    return folder


@pytest.fixture
def asked(job, capsys):
    """What a command prints of the whole job."""

    def ask(command, *words):
        capsys.readouterr()
        main([command, str(job), "--period", "all", *words])
        return capsys.readouterr()

    return ask


def by_rank(found):
    return {one["rank"]: one for one in found["processes"] if "rank" in one}


def test_the_rank_that_compiled_nothing_is_distinguished_from_those_that_did(asked):
    found = json.loads(asked("summary", "--compiled", "--format", "json").out)
    of_rank = by_rank(found)
    assert [of_rank[rank]["graphs"] > 0 for rank in range(RANKS)] == [True, False]
    (graph_break,) = found["graph_breaks"]
    assert Path(graph_break["file"]).name == PROGRAM.name
    assert [one["rank"] for one in graph_break["processes"]] == [0]
    printed = asked("summary", "--compiled")
    assert "times in rank 0: " in printed.out
    assert f"Compiled code ran in rank 0, and not in rank {EAGER}." in printed.out


def test_code_that_a_child_compiled_has_its_lines(job):
    trace = opscope.load(job, rank=0)
    origins = trace.table("compiled_origins")
    files = {Path(trace.names[file]).name for file in origins["file"].tolist()}
    lines = PROGRAM.read_text().splitlines()
    compiled = {lines[line - 1].strip() for line in origins["line"].tolist()}
    assert files == {PROGRAM.name}
    assert compiled == {"y = torch.relu(x @ weight)", "return (y * 2 + 1).sum()"}
    assert len(trace.table("compilations")) > 0


def test_children_of_ranks_are_processes_and_no_ranks(job):
    processes = Processes.in_folder(job)
    traces = {part: processes.load(part) for part in processes.parts}
    assert len(traces) == 2 * RANKS + 1  # and who started them
    counts = [(part.kind, count(trace, "aten::cos")) for part, trace in traces.items()]
    assert counts.count((PROCESS, 1)) == counts.count((RANK, 0)) == RANKS
