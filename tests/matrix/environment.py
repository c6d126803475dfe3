"""The environment of a row: opscope as users install it, one torch, and what tests take."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from matrix.cuda_stubs import write_stubs
from matrix.interpreters import NoInterpreter, find_or_install
from matrix.rows import USUAL_PYTHON

HERE = Path(__file__).resolve().parents[2]
FOLDER = HERE / "build" / "matrix"
TOOLS = ("pytest", "psutil", "scikit-build-core", "nanobind", "cmake", "ninja")
WANTED = (
    *("numpy", "hypothesis", "pyarrow", "duckdb", "rich", "pandas", "polars"),
    *("protobuf", "perfetto", "ibis-framework[duckdb]"),
)
"""What tests take where there is a build for the interpreter; they are skipped without."""
TORCH_TAKES = (
    "sympy",
    "networkx",
    "jinja2",
    "fsspec",
    "filelock",
    "typing_extensions",
    "setuptools",
)


class RowUnavailable(Exception):
    """What the row needs cannot be had; the message says what that is."""


def make_environment(row):
    """The row's own interpreter, with everything installed.

    Raises:
        RowUnavailable: there is no such Python, or no such torch for it.
    """
    beside = _packages(row.python)
    folder = FOLDER / row.name
    python = folder / "bin" / "python"
    if not python.exists():
        _run(beside, "-m", "venv", "--without-pip", str(folder))
        site = _site(python)
        # A path alone, so that an editable install there, which hooks into imports, is not seen.
        Path(site, "beside.pth").write_text(f"{_site(beside)}\n")
    if row.torch and _version_of_torch(python) != row.torch:
        _pip(beside, python, "--no-deps", f"torch=={row.torch}")
        write_stubs(Path(_site(python), "torch", "lib"))
    _install_opscope(beside, python, row.python)
    return python


def _packages(version):
    """An interpreter that has what tests take: that of development, or one that is made here."""
    if version == USUAL_PYTHON and sys.version_info[:2] == tuple(map(int, version.split("."))):
        return Path(sys.executable)
    folder = FOLDER / f"packages-{version}"
    python, whole = folder / "bin" / "python", folder / "whole"
    if whole.exists():
        return python
    shutil.rmtree(folder, ignore_errors=True)  # what somebody interrupted
    _run(_interpreter(version), "-m", "venv", str(folder))
    try:
        _run(python, "-m", "pip", "install", "-qq", *TOOLS)
    except subprocess.CalledProcessError:
        shutil.rmtree(folder)
        raise RowUnavailable(f"pytest and nanobind have no builds for Python {version}.") from None
    for package in (*WANTED, *TORCH_TAKES):
        subprocess.run(
            [str(python), "-m", "pip", "install", "-qq", "--only-binary", ":all:", package]
        )
    whole.touch()
    return python


def _interpreter(version):
    """This machine's, or one that is made here."""
    folders = os.environ.get("OPSCOPE_PYTHONS", "").split(os.pathsep)
    try:
        return find_or_install(version, FOLDER / "interpreters", folders)
    except NoInterpreter as problem:
        raise RowUnavailable(f"There is no Python {version} here, and {problem}.") from problem


def _install_opscope(beside, python, version):
    wheels = FOLDER / f"wheels-{version}"
    shutil.rmtree(wheels, ignore_errors=True)
    _run(
        *(beside, "-m", "pip", "wheel", "-qq", "--no-build-isolation", "--no-deps"),
        *(
            f"--config-settings=build-dir={FOLDER / f'native-{version}'}",
            "-w",
            str(wheels),
            str(HERE),
        ),
    )
    (wheel,) = wheels.glob("*.whl")
    _pip(beside, python, "--no-deps", "--force-reinstall", str(wheel))


def _pip(beside, python, *what):
    command = ["-m", "pip", "--python", str(python), "install", "-qq", "--only-binary=:all:"]
    # A machine may hold back newer releases than it keeps; the row names its own.
    free = {**os.environ, "PIP_CONSTRAINT": os.devnull}
    try:
        _run(beside, *command, *what, env=free)
    except subprocess.CalledProcessError:
        raise RowUnavailable(f"{what[-1]} cannot be had for this Python.") from None


def _version_of_torch(python):
    done = subprocess.run(
        [str(python), "-c", "import torch; print(torch.__version__)"],
        capture_output=True,
        text=True,
    )
    return done.stdout.strip().partition("+")[0]


def _site(python):
    asked = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    return _run(python, "-c", asked, capture_output=True, text=True).stdout.strip()


def _run(python, *arguments, **options):
    return subprocess.run([str(python), *arguments], check=True, **options)
