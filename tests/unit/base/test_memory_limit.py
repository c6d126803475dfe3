"""How much memory is left, and what is said when it is not enough."""

import resource
import sys

import pytest

from opscope.base import memory_limit
from opscope.base.memory_limit import memory_for, memory_left, require_memory
from opscope.errors import InsufficientMemoryError
from support.processes import run_python


def test_the_first_report_counts():
    with (
        pytest.raises(InsufficientMemoryError, match="for the inner"),
        memory_for("the outer"),
        memory_for("the inner"),
    ):
        raise MemoryError


def test_what_is_left_is_the_least_of_all_limits(monkeypatch):
    monkeypatch.setattr(memory_limit, "_of_machine", lambda: 3000)
    monkeypatch.setattr(memory_limit, "_of_container", lambda: None)
    monkeypatch.setattr(memory_limit, "process_memory_left", lambda: 2000)
    assert memory_left() == 2000
    require_memory(2000, "it")
    with pytest.raises(InsufficientMemoryError, match="needs about"):
        require_memory(2001, "it")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_limit_of_the_process_counts():
    limit = 1 << 30
    program = "from opscope.base.memory_limit import memory_left; print(memory_left())"
    limited = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))}
    done = run_python("-c", program, check=True, **limited)
    assert 0 < int(done.stdout) < limit


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_the_machine_has_no_memory_for_fails_instead_of_being_killed():
    program = """
from opscope.base import memory_limit
memory_limit._of_machine = lambda: 1 << 28
with memory_limit.no_more_than_is_free():
    few = bytearray(1 << 26)
    try:
        bytearray(1 << 30)
    except MemoryError:
        print("failed")
print(len(bytearray(1 << 30)) == 1 << 30)
"""
    done = run_python("-c", program)
    assert done.stdout.split() == ["failed", "True"], done.stderr
