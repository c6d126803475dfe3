"""The plugin for pytest, in sessions of their own."""

from dataclasses import dataclass

import pytest

from support.processes import run_python
from support.torch_processes import run_torch

PROGRAM = """
import time

import pytest
import torch

torch.set_num_threads(1)
net = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(10)])
x = torch.randn(4, 16)


def plain():
    net(x).sum().backward()


def with_more_calls():
    plain()
    torch.relu(x)


def slower():
    plain()
    hidden = torch.ones(400, 400)
    for _ in range(4):
        hidden = hidden @ hidden
"""

WHAT_IS_IMPORTED = """
import sys


def pytest_unconfigure():
    print("imported:", sorted({"opscope", "torch", "numpy"} & set(sys.modules)))
"""


@dataclass
class Session:
    code: int
    out: str


@pytest.fixture
def run_pytest(tmp_path):
    def session(tests, *arguments, program=PROGRAM, conftest=""):
        (tmp_path / "test_it.py").write_text(program + tests)
        (tmp_path / "conftest.py").write_text(conftest)
        run = run_torch if program is PROGRAM else run_python
        done = run(
            *("-m", "pytest", "-p", "no:cacheprovider", *arguments, "test_it.py"),
            cwd=tmp_path,
            added={"PYTEST_ADDOPTS": ""},
        )
        return Session(done.returncode, done.stdout + done.stderr)

    return session


def test_a_session_that_does_not_use_it_imports_nothing(run_pytest):
    session = run_pytest("", "-s", program="def test(): pass", conftest=WHAT_IS_IMPORTED)
    assert "imported: []" in session.out
    assert session.code == 0


def test_it_is_skipped_unless_requested(run_pytest):
    session = run_pytest("def test(profiled): assert False", "-rs")
    assert "pytest --opscope switches it on" in session.out
    assert session.code == 0


def test_functions_are_compared(run_pytest):
    session = run_pytest(
        """
def test_the_same(profiled):
    profiled(plain).assert_no_slower_than(profiled(plain), gate="count==,bytes==,memory==")

def test_more_calls(profiled):
    profiled(with_more_calls).assert_no_slower_than(profiled(plain), gate="count==")

def test_slower(profiled):
    profiled(slower).assert_no_slower_than(profiled(plain))

def test_what_was_recorded(profiled):
    found = profiled(plain, steps=7, recordings=2)
    assert len(found.recordings) == 2
    assert found.diff(profiled(plain, steps=7, recordings=2)).a.steps == 14

def test_too_few(profiled):
    few = dict(steps=2, recordings=1)
    profiled(plain, **few).assert_no_slower_than(profiled(plain, **few))

def broken():
    raise RuntimeError("in the step")

def test_an_exception_in_a_step(profiled):
    with pytest.raises(RuntimeError, match="in the step"):
        profiled(broken, warm_up=0).recordings
    assert len(profiled(plain, recordings=1).recordings) == 1
""",
        "--opscope",
    )
    assert session.code == 1
    assert "3 failed, 3 passed" in session.out
    assert "times cannot be compared: too few steps: 2" in session.out
    assert "count== failed: different: aten::relu" in session.out
    assert " is slower by " in session.out


def test_baselines_on_disk(run_pytest):
    tests = """
def test_it(profiled):
    profiled(plain).assert_no_slower_than("baseline", gate="count==")

def test_other(profiled):
    profiled(slower).assert_no_slower_than("baseline", gate="count==")
"""
    missing = run_pytest(tests, "--opscope")
    assert missing.code == 1
    assert "--opscope-save-baselines" in missing.out
    assert run_pytest(tests, "--opscope-save-baselines").code == 0
    changed = run_pytest(tests.replace("(plain)", "(with_more_calls)"), "--opscope")
    assert changed.code == 1 and "1 failed, 1 passed" in changed.out
    assert "aten::relu" in changed.out
