"""A user's program that uses every public name passes the strictest checks of mypy and pyright."""

import ast
import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import opscope
import opscope.drop_in
import opscope.triggers
from support.processes import run_python

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "programs" / "typed_user.py"
MEMBERS = re.compile(r"^::: opscope\.(Trace|Job|triggers)\n.*\n +members: \[(.*)\]$", re.MULTILINE)


WRONG = "import opscope\nopscope.schedule(wait='1')\nn: int = opscope.load('a', rank=0)\n"


@pytest.fixture
def users_folder(tmp_path):
    """The program, and one that uses opscope wrongly in lines 2 and 3."""
    shutil.copy(PROGRAM, tmp_path)
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


def mypy(folder):
    path = {"MYPYPATH": str(Path(opscope.errors.__file__).parents[1])}
    command = ("-m", "mypy", "--strict", "--cache-dir", folder / "cache", ".")
    return run_python(*command, cwd=folder, added=path)


def pyright(folder):
    package = Path(opscope.errors.__file__).parents[1]
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(package)], "include": ["*.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    return run_python("-m", "pyright", "--pythonpath", sys.executable, cwd=folder)


def needs_pyright():
    if find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    try:
        shown = run_python("-m", "pyright", "--version", timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip("pyright cannot be fetched here")
    if shown.returncode != 0:
        pytest.skip("pyright cannot be fetched here")


def test_the_program_uses_every_public_name():
    used = {node.attr for node in ast.walk(ast.parse(PROGRAM.read_text())) if hasattr(node, "attr")}
    reference = (ROOT / "docs" / "reference" / "python.md").read_text()
    documented = {name for _, names in MEMBERS.findall(reference) for name in names.split(", ")}
    assert len(documented) > 40
    public = {*opscope.__all__, *opscope.triggers.__all__, *opscope.drop_in.__all__, *documented}
    assert public - used == set()


@pytest.mark.slow
@pytest.mark.parametrize("check", [mypy, pyright])
def test_it_is_accepted_and_wrong_use_is_not(users_folder, check):
    pytest.importorskip("torch")
    pytest.importorskip("mypy")
    if check is pyright:
        needs_pyright()
    done = check(users_folder)
    found = [line for line in done.stdout.splitlines() if "error" in line and ".py:" in line]
    assert {line.partition("wrong.py:")[2][:1] for line in found} == {"2", "3"}, done.stdout
