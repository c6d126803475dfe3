"""Processes of opscope's own find modules where Python, opscope and packages are, nowhere else."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import opscope
from opscope.base.python_process import bare_python, interpreter, own_python
from support.processes import run_python

SOURCE = Path(opscope.errors.__file__).parent
HOSTILE = "import os; open(os.environ['MARK'], 'a').write(__file__ + '\\n'); raise ImportError\n"

STARTERS = {
    "cli/run.py": "own_python",
    "cli/session/page_after_run.py": "own_python",
    "launch/keeper_process.py": "what it was given",
    "launch/process_end.py": "what it was given",
    "recording/bridge/bridge.py": "the compiler",
    "recording/streams/keeper.py": "bare_python",
    "jobs/rollup/workers.py": "own_python",
    "readers/recorded_run.py": "opscope_command",
}
"""Every file that starts a process, and what with. What a keeper is given is of ``own_python``."""

_STARTS = {"run", "Popen", "call", "check_call", "check_output", "getoutput", "system", "popen"}
_STARTS |= {name for name in dir(os) if name.startswith(("exec", "spawn", "posix_spawn"))}


def starts_in(file):
    """Whether a file starts a process, and what it takes the command from."""
    tree = ast.parse(file.read_text())
    starts = any(
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("subprocess", "os")
        and node.attr in _STARTS
        for node in ast.walk(tree)
    )
    called = {node.func.id for node in ast.walk(tree)
              if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}  # fmt: skip
    return starts, called


def test_every_place_that_starts_a_process_is_known_and_does_it_in_the_one_way():
    found = {}
    for file in SOURCE.rglob("*.py"):
        if not any(f".{name}(" in file.read_text() for name in _STARTS):
            continue
        starts, called = starts_in(file)
        name = file.relative_to(SOURCE).as_posix()
        if starts:
            found[name] = called
    assert found.keys() == STARTERS.keys()
    for name, by in STARTERS.items():
        assert by not in ("own_python", "bare_python", "opscope_command") or by in found[name], name


def test_nothing_else_names_the_interpreter_or_has_multiprocessing_start_it():
    files = {file.name: file.read_text() for file in SOURCE.rglob("*.py")}
    assert {n for n, text in files.items() if "sys.executable" in text} == {
        "python_process.py",
        "doctor.py",  # which prints it
    }
    for name, text in files.items():
        assert "import multiprocessing" not in text and "ProcessPool" not in text, name


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A folder full of modules that Python and opscope would import, in which everything runs."""
    folder, mark = tmp_path / "sent", tmp_path / "ran"
    folder.mkdir()
    for name in ("json", "os", "site", "struct", "socket", "contextlib", "importlib", "numpy",
                 "pyarrow", "rich", "typing", "__future__", "sitecustomize", "usercustomize",
                 "opscope", "torch", "trace", "errors", "schedule"):  # fmt: skip
        (folder / f"{name}.py").write_text(HOSTILE)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MARK", str(mark))
    yield folder
    assert not mark.exists(), mark.read_text()


def run(command, **environment):
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True,
                          text=True, timeout=60)  # fmt: skip


SAYS = (
    "import json, sys, opscope, numpy\n"
    "print(json.dumps([sys.path, sys.argv[1:], opscope.__file__, __name__]))"
)


@pytest.mark.parametrize("paths", ["", "/nowhere:{here}:."])
def test_what_lies_around_is_not_run(hostile, tmp_path, monkeypatch, paths):
    monkeypatch.setattr(sys, "path", ["", ".", str(hostile), *sys.path, str(hostile)])
    file = tmp_path / "says.py"
    file.write_text(SAYS)
    done = run(own_python(str(file), "a", "b c"), PYTHONPATH=paths.format(here=hostile),
               PYTHONSTARTUP=str(hostile / "json.py"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    path, arguments, ours, name = json.loads(done.stdout)
    assert (arguments, ours, name) == (["a", "b c"], str(SOURCE / "__init__.py"), "__main__")
    assert str(hostile) not in path and all(map(os.path.isabs, path))


def test_the_folder_of_the_program_is_none_of_installed_packages(hostile, tmp_path, monkeypatch):
    (hostile / "program.egg-info").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(hostile), *sys.path[1:]])
    assert str(hostile) not in json.loads(interpreter()[-1])


def test_packages_that_are_installed_elsewhere_are_found(tmp_path, monkeypatch):
    folder = tmp_path / "modules"
    (folder / "found_there-1.dist-info").mkdir(parents=True)
    (folder / "found_there.py").write_text("")
    file = tmp_path / "says.py"
    file.write_text("import found_there, sys; print(found_there.__file__)")
    monkeypatch.setattr(sys, "path", [sys.path[0], str(folder), *sys.path[1:]])
    done = run(own_python(str(file)))
    assert done.stdout.strip() == str(folder / "found_there.py"), done.stderr


def test_a_frozen_program_is_not_started_again(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(OSError, match="no Python executable"):
        bare_python("/file.py")
    monkeypatch.delattr(sys, "frozen")
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(OSError, match="no Python executable"):
        own_python("/file.py")


def test_one_that_was_started_so_starts_others_that_find_as_much(tmp_path):
    (tmp_path / "second.py").write_text("import opscope._native, numpy\nprint('found')\n")
    (tmp_path / "first.py").write_text(
        "import subprocess, sys\nfrom opscope.base.python_process import own_python\n"
        "subprocess.run(own_python(sys.argv[1]), check=True)\n"
    )
    command = own_python(str(tmp_path / "first.py"), str(tmp_path / "second.py"))
    assert subprocess.run(command, capture_output=True, text=True).stdout == "found\n"


def test_opscope_that_is_run_by_its_name_imports_nothing_of_the_current_folder(hostile):
    for name in ("opscope", "importlib", "contextlib"):  # Python itself imports them first
        (hostile / f"{name}.py").unlink()
    done = run([sys.executable, "-X", "dev", "-m", "opscope", "--version"])
    assert done.stdout.startswith("opscope "), done.stderr


def test_programs_that_it_runs_then_get_their_folder_back(tmp_path):
    (tmp_path / "beside.py").write_text("print('imported')")
    words = ["-m", "opscope.drop_in", "-c", "import beside, sys; print(repr(sys.path[0]))"]
    done = run_python(*words, cwd=tmp_path)
    assert done.stdout.split() == ["imported", "''"], done.stderr


def test_a_compiler_in_the_current_folder_is_none(hostile, monkeypatch):
    from opscope.recording.bridge.bridge import find_compiler

    usual = find_compiler()
    compiler = hostile / "g++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    for first in ("", ".", "./"):
        monkeypatch.setenv("PATH", f"{first}:{os.environ['PATH']}")
        assert find_compiler() == usual
