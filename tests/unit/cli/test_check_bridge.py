"""Whether a bridge is there, told without importing torch."""

import importlib.metadata
import importlib.util
import subprocess

import pytest

from opscope.cli.run import check_bridge


@pytest.fixture
def built(monkeypatch, tmp_path):
    """Makes a cache with one bridge; what is called returns how often another was built."""
    calls = []

    def check(package_version, torch_version):
        folder = tmp_path / f"bridge-torch-{torch_version}-0123456789abcdef"
        folder.mkdir()
        (folder / "stamp.json").touch()
        monkeypatch.setattr(importlib.metadata, "version", lambda name: package_version)
        check_bridge()
        return len(calls)

    def run(command, **options):
        calls.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setenv("OPSCOPE_CACHE", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(subprocess, "run", run)
    return check


@pytest.mark.parametrize(
    ("package", "torch", "times"),
    [("2.13.0", "2.13.0", 0), ("2.13.0+cpu", "2.13.0+cpu", 0), ("2.11.0", "2.11.0+cu130", 0),
     ("2.1.0", "2.11.0+cu130", 1), ("2.13.0", "2.13.1", 1)],
)  # fmt: skip
def test_a_bridge_is_built_where_there_is_none_of_this_torch(built, package, torch, times):
    assert built(package, torch) == times
