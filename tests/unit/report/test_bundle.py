"""The built page ships with the package, and is built from the sources in web/."""

from __future__ import annotations

import shutil
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from support.processes import run_python

ROOT = Path(__file__).parents[3]
CHECK = ROOT / "web" / "check_bundle.py"


@pytest.fixture
def check():
    spec = spec_from_file_location("check_bundle", CHECK)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bundle_is_not_stale():
    outcome = run_python(CHECK)
    assert outcome.returncode == 0, outcome.stderr


def test_any_change_to_the_sources_is_noticed(check, tmp_path):
    for name in check.ROOTS:
        source = ROOT / "web" / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    assert check.source_hash(tmp_path) == check.recorded_hash()
    with (tmp_path / "src" / "style.css").open("a") as file:
        file.write(" ")
    assert check.source_hash(tmp_path) != check.recorded_hash()
