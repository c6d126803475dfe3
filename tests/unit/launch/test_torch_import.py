"""The moment a program imports torch is noticed, and nothing else about the import changes."""

import os
import sys

import pytest

from support.processes import run_python

# A stand-in is enough, and free of torch's import time: what counts is the import itself.
FAKE_TORCH = "import os\nthreads = os.environ.get('OMP_NUM_THREADS')\nimport torch.nn\n"

START = """
import sys
from opscope.launch.torch_import import when_torch_is_imported
assert "torch" not in sys.modules
finders = list(sys.meta_path)
when_torch_is_imported(lambda: print("began", sys.modules["torch"].threads))
"""


@pytest.fixture
def outcome(tmp_path):
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(FAKE_TORCH)
    (package / "nn.py").write_text("")

    def run(program):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        environment.pop("OMP_NUM_THREADS", None)
        done = run_python("-c", START + program, env=environment)
        assert done.stderr == ""
        return done.stdout.splitlines()

    return run


def test_the_program_may_prepare_the_environment_first(outcome):
    program = "import os; os.environ['OMP_NUM_THREADS'] = '3'; import torch"
    assert outcome(program) == ["began 3"]


def test_a_first_attempt_that_fails_does_not_count(outcome):
    program = """
path, sys.path[:] = list(sys.path), []
try:
    import torch
except ImportError as error:
    print(error)
sys.path[:] = path
import torch
"""
    assert outcome(program) == ["No module named 'torch'", "began None"]


def test_not_called_in_a_forked_child(outcome):
    program = """
import os
child = os.fork()
if child == 0:
    import torch
    print("child", torch.threads, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    assert outcome(program) == ["child None"]


def test_called_at_once_if_torch_is_there_already(outcome):
    program = "import torch; when_torch_is_imported(lambda: print('at once'))"
    assert outcome(program) == ["began None", "at once"]


def test_several_may_wait_for_it(outcome):
    program = """
when_torch_is_imported(lambda: print("the second too"))
import torch
print(sys.meta_path == finders, vars(torch.__spec__.loader).keys())
"""
    *called, left = outcome(program)
    assert sorted(called) == ["began None", "the second too"]
    assert left == "True dict_keys(['name', 'path'])"
