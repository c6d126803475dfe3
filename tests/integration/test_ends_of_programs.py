"""A program ends under ``opscope run`` as it ends alone, whatever it does to its process."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from support.torch_processes import run_torch

PROGRAM = """
import atexit, os, resource, signal, sys
import torch
x = torch.zeros(2)
for _ in range(100):
    x = x + 1
def limit(name, soft, hard=None):
    number = getattr(resource, name)
    resource.setrlimit(number, (soft, resource.getrlimit(number)[1] if hard is None else hard))
def nobody_reads(descriptor):
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, descriptor)
"""


@dataclass
class Outcome:
    code: int
    err: str
    folder: Path

    @property
    def was_written(self):
        return (self.folder / "t" / "rank=00000" / "manifest.json").exists()


@pytest.fixture
def execute(tmp_path):
    def call(program, *options):
        (tmp_path / "script.py").write_text(PROGRAM + program)
        command = ("-m", "opscope", "run", "-o", "t", *options, "script.py")
        done = run_torch(*command, cwd=tmp_path)
        return Outcome(done.returncode, done.stderr, tmp_path)

    return call


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("class Mine(BaseException): pass\nraise Mine", 1),
        ("os.close(1); os.close(2)", 0),
        ("os.dup2(os.open('/dev/full', os.O_WRONLY), 2)", 0),
        ("signal.signal(signal.SIGPIPE, signal.SIG_DFL); nobody_reads(2)", 0),
        ("os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')", 0),
        ("sys.setrecursionlimit(60)", 0),
        ("atexit.register(os._exit, 6)", 6),
        ("limit('RLIMIT_FSIZE', 0); signal.signal(signal.SIGXFSZ, signal.SIG_DFL)", 0),
    ],
)
def test_how_it_ends(execute, program, code):
    outcome = execute(program)
    assert (outcome.code, outcome.was_written) == (code, True)


TOO_LIMITED = [
    ("limit('RLIMIT_DATA', 1, 1); sys.exit(9)", 9, "could not be written: "),
    ("limit('RLIMIT_AS', 1, 1); os.kill(os.getpid(), signal.SIGTERM)", -15, "not be written"),
    ("limit('RLIMIT_FSIZE', 100, 100)", 0, "The trace cannot be written to"),
    ("limit('RLIMIT_NOFILE', 0, 0)", 0, "Too many open files"),
]


@pytest.mark.parametrize(("program", "code"), [case[:2] for case in TOO_LIMITED])
def test_what_the_program_may_not_use_another_process_may(execute, program, code):
    outcome = execute(program)
    assert (outcome.code, outcome.was_written) == (code, True)
    assert "details:" in outcome.err
    assert "not be written" not in outcome.err and "is kept" not in outcome.err
    assert list(outcome.folder.glob("t/.*")) == []


@pytest.mark.parametrize(("program", "code", "said"), TOO_LIMITED)
def test_what_cannot_be_written_is_reported(execute, program, code, said):
    outcome = execute(program, "--no-stream")
    assert (outcome.code, outcome.was_written) == (code, False)
    assert said in outcome.err
    assert "terminate called" not in outcome.err
    assert list(outcome.folder.glob("t/.*")) == []  # nothing unfinished is left


@pytest.mark.parametrize("mebibytes", [16, 160])
def test_little_address_space(execute, mebibytes):
    program = f"""
for _ in range(20_000):
    x = torch.tanh(x)
pages = int(open("/proc/self/statm").read().split()[0])
room = pages * resource.getpagesize() + ({mebibytes} << 20)
limit('RLIMIT_AS', room, room)
"""
    outcome = execute(program, "--stack", "--memory", "--shapes", "--no-table")
    assert outcome.code == 0
    assert outcome.was_written or "could not be written" in outcome.err
    assert outcome.was_written or mebibytes < 160


def test_a_cycle_is_written_while_the_program_is_limited(execute):
    program = """
limit('RLIMIT_AS', 1 << 62)
layer = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(6):
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""
    outcome = execute(program, "--schedule", "0,1,1")
    assert outcome.code == 0
    written = sorted(outcome.folder.glob("t/cycle-*/rank=00000/manifest.json"))
    assert len(written) == 3, outcome.err
