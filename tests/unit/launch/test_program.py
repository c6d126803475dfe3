"""A program sees the same surroundings, exit code and tracebacks as under ``python`` itself."""

import sys
import zipfile

import pytest

from opscope.errors import UsageError
from opscope.launch.program import Program, ProgramNotFoundError, check
from support.processes import run_python

# Describes everything a program can see of how it was started.
LOOK = """
import json, sys
def shown(value):
    return value.name if type(value).__name__ == "ModuleSpec" else type(value).__name__ \\
        if type(value).__name__.endswith(("Loader", "importer", "module")) else repr(value)
attributes = {k: shown(v) for k, v in globals().items() if k not in ("json", "sys", "shown")}
print(json.dumps([sys.argv, sys.path, attributes, sys.modules["__main__"].__dict__ is globals()]))
"""

# Runs its arguments through opscope.launch.program instead.
DRIVER = """
import sys
from opscope.launch.program import Program, ProgramNotFoundError, check, run
option = sys.argv.pop(1) if sys.argv[1] in ("-m", "-c") else ""
target, *arguments = sys.argv[1:]
program = Program(target, tuple(arguments), is_module=option == "-m", is_code=option == "-c")
try:
    check(program)
    run(program)
except ProgramNotFoundError as error:
    sys.exit(f"not found: {error}")
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "package" / "sub").mkdir(parents=True)
    for init in ("package/__init__.py", "package/sub/__init__.py"):
        (tmp_path / init).touch()
    for path in ("look.py", "package/__main__.py", "package/sub/module.py"):
        (tmp_path / path).write_text(LOOK)
    (tmp_path / "package" / "link.py").symlink_to("../look.py")
    with zipfile.ZipFile(tmp_path / "look.zip", "w") as archive:
        archive.writestr("__main__.py", LOOK)
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / "driver.py").write_text(DRIVER)
    return tmp_path


def python(folder, *arguments, **options):
    return run_python(*arguments, cwd=folder, **options)


def through_opscope(folder, *arguments, **options):
    return python(folder, "driver/driver.py", *arguments, **options)


FAILS = """
def fails():
    try:
        1 / 0
    except ZeroDivisionError as error:
        raise ValueError("no") from error

fails()
"""
HAS_A_HOOK = """
import sys, traceback

def hook(kind, error, trace):
    print("hook", kind.__name__, len(traceback.extract_tb(trace)))

sys.excepthook = hook
raise KeyError("x")
"""


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import sys\nprint('before')\nsys.exit()", 0, "before"),
        ("import sys\nsys.exit('a message')", 1, "a message"),
        ("raise SystemExit(-1)", 255, ""),
        (FAILS, 1, "ZeroDivisionError"),
        (HAS_A_HOOK, 1, "hook KeyError 1"),
        ("def (", 1, "SyntaxError"),
        ("raise 'nonsense'", 1, "TypeError"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('not reached')", -2, ""),
    ],
)
def test_a_script_ends_as_under_python(folder, text, code, said):
    (folder / "script.py").write_text(text)
    done = assert_same(folder, "script.py")
    assert done.returncode == code and said in done.stdout + done.stderr


def assert_same(folder, *arguments, **options):
    expected = python(folder, *arguments, **options)
    actual = through_opscope(folder, *arguments, **options)
    assert actual.stdout == expected.stdout
    assert actual.stderr == expected.stderr
    assert actual.returncode == expected.returncode
    return expected


@pytest.mark.parametrize(
    "command",
    [
        "look.py one -m --two",
        "./package/../look.py",
        "package/link.py",
        "package folder",
        "look.zip archive",
        "-m package -x",
        "-m package.sub.module --flag -- rest",
    ],
)
def test_surroundings_are_those_of_python(folder, command):
    done = assert_same(folder, *command.split())
    assert done.returncode == 0
    assert done.stdout.startswith("[[")


@pytest.mark.parametrize("driver", [(), ("driver/driver.py",)])
def test_a_script_that_comes_through_a_pipe_runs_in_full(folder, driver):
    program = "import sys\nprint(sys.argv, __file__)\nsys.exit(4)\n"
    done = python(folder, *driver, "/dev/stdin", "argument", input=program)
    assert done.returncode == 4
    assert done.stdout == "['/dev/stdin', 'argument'] /dev/stdin\n"


@pytest.mark.parametrize("text", [LOOK, "", "import package.sub\nraise ValueError('no')", "def ("])
def test_code_of_the_command_line_and_of_standard_input(folder, text):
    assert_same(folder, "-c", text, "one", "-m", "--two")
    assert_same(folder, "-", "one", "-", "-c", input=text)


def test_standard_input_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ProgramNotFoundError, match=r"closed, .* Name a script"):
        check(Program("-"))


POINTS = """
import multiprocessing, pickle

class Point:
    def __init__(self, x):
        self.x = x

def double(point):
    return Point(point.x * 2)

if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(Point(1))).x == 1
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print([p.x for p in pool.map(double, [Point(1), Point(2)])])
"""


def test_classes_of_main_pickle_and_spawned_processes_find_them(folder):
    (folder / "script.py").write_text(POINTS)
    assert assert_same(folder, "script.py").stdout == "[2, 4]\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("missing.py", "There is no script 'missing.py'"),
        ("-m missing", "There is no module 'missing'"),
        ("-m look.py", "Did you mean the module 'look'"),
        ("-m package.missing", "There is no module 'package.missing'"),
        ("-m package.sub", "'package.sub' is a package without a __main__ module"),
        ("driver", "has no __main__.py"),
    ],
)
def test_what_cannot_be_found_is_reported_in_one_paragraph(folder, command, said):
    done = through_opscope(folder, *command.split())
    assert done.returncode == 1
    assert done.stderr.startswith("not found: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_nothing_runs_where_there_is_no_current_folder(folder, monkeypatch):
    (folder / "gone").mkdir()
    monkeypatch.chdir(folder / "gone")
    (folder / "gone").rmdir()
    with pytest.raises(UsageError, match=r"current folder cannot be used .* change to an existing"):
        check(Program(str(folder / "look.py")))


def test_a_package_whose_own_import_fails_is_the_programs_error(folder):
    (folder / "package" / "__init__.py").write_text("import no_such_dependency")
    done = through_opscope(folder, "-m", "package")
    assert done.returncode == 1
    assert "ModuleNotFoundError: No module named 'no_such_dependency'" in done.stderr
