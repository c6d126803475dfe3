"""The environment of the libraries: beside that of development, with opscope from the tree."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

from field.libraries import BESIDE, BUILDING, Library

TREE = Path(__file__).resolve().parents[2]
FOLDER = TREE / "build" / "field"
PYTHON = FOLDER / "venv" / "bin" / "python"
COUNTER = FOLDER / "operator_counter.so"
_INSTALLED = FOLDER / "installed"
"""A copy: the hook of an editable install would be one of the program's importers."""


def make_environment() -> None:
    """An interpreter that sees the packages of development, and the tree's opscope before them."""
    _copy_opscope()
    if PYTHON.exists():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    _run(sys.executable, "-m", "venv", "--without-pip", str(FOLDER / "venv"))
    beside = [str(_INSTALLED), *(path for path in sys.path if path.endswith("site-packages"))]
    _site().joinpath("beside.pth").write_text("".join(f"{path}\n" for path in beside))
    _install(BESIDE)
    _compile_counter()


def _copy_opscope() -> None:
    shutil.rmtree(_INSTALLED, ignore_errors=True)
    for name in ("opscope", "opscope_pytest"):
        for folder in importlib.import_module(name).__path__:  # an editable install has several
            shutil.copytree(folder, _INSTALLED / name, dirs_exist_ok=True)


def _compile_counter() -> None:
    found = importlib.util.find_spec("torch")
    assert found is not None and found.origin is not None
    torch = Path(found.origin).parent
    source = Path(__file__).parent / "operator_counter.cpp"
    options = ("-O1", "-std=c++20", "-shared", "-fPIC", f"-I{torch / 'include'}")
    libraries = (f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10")
    _run(os.environ.get("CXX", "g++"), *options, str(source), *libraries, "-o", str(COUNTER))


def install(library: Library) -> None:
    """The library without what it depends on: pip would bring a torch of its own choice."""
    marker = FOLDER / f"{library.name}.installed"
    if not marker.exists() or marker.read_text() != library.requirements:
        _install(library.requirements)
        marker.write_text(library.requirements)


def folder_of_tests(library: Library) -> Path:
    """Its source archive, unpacked: the tests are seldom in what is installed."""
    sources = FOLDER / "sources"
    found = sources / library.name
    if not found.exists():
        _install(BUILDING)
        options = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", str(found))
        _run(*_pip("download"), *options, library.requirements.split()[0])
        (archive,) = found.glob("*.tar.gz")
        with tarfile.open(archive) as opened:
            opened.extractall(found, filter="data")
    (unpacked,) = (path for path in found.iterdir() if path.is_dir())
    return unpacked


def _install(requirements: str) -> None:
    options = ("--no-deps", "--no-compile", "--only-binary", ":all:")
    _run(*_pip("install"), *options, *requirements.split())


def _pip(command: str) -> list[str]:
    return [sys.executable, "-m", "pip", "--python", str(PYTHON), command, "-qq"]


def _site() -> Path:
    folder = FOLDER / "venv"
    return Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))


def _run(*command: str) -> None:
    # A machine may hold back newer releases than it keeps; the table names its own.
    subprocess.run(command, check=True, env={**os.environ, "PIP_CONSTRAINT": os.devnull})
