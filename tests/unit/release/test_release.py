"""What releases are made of, as far as it takes no compiling: lists, checksums, failures."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from datetime import datetime, timezone
from pathlib import Path

import pytest
from release import bridges, headers, vouching
from release.headers import TorchRelease, headers_of, listed
from release.running import ReleaseError, run

from opscope.recording.bridge.torch_build import release_of

VERSION = "__version__ = '2.13.0+cu130'\ngit_version = '" + "a" * 40 + "'\n"


def torch_wheel(folder, version=VERSION):
    path = folder / "torch-2.13.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch/version.py", version)
        archive.writestr("torch/include/c10/a.h", "int a;")
        archive.writestr("torch/lib/libtorch_cpu.so", "large")
    return path


@pytest.fixture
def pip(monkeypatch):
    """Stands in for pip: what it downloads."""
    fetched = []

    def download(command, more=(), *, variables):
        # A constraint of this machine's may not keep a listed release away.
        assert variables == {"PIP_CONSTRAINT": os.devnull}
        fetched.append(more[-1])
        if more[-1] != "torch==2.13.0":
            raise ReleaseError("No matching distribution")
        torch_wheel(Path(more[more.index("--dest") + 1]))
        return ""

    monkeypatch.setattr(headers, "run", download)
    return fetched


def test_headers_are_taken_out_of_a_wheel_once(tmp_path, pip):
    found = headers_of("2.13.0", tmp_path)
    assert (found.folder / "include" / "c10" / "a.h").read_text() == "int a;"
    assert not (found.folder / "lib").exists()
    assert found.git == "a" * 40
    assert found.wheel[0] == "torch-2.13.0-py3-none-any.whl" and len(found.wheel[1]) == 64
    assert headers_of("2.13.0", tmp_path) == found
    assert pip == ["torch==2.13.0"]


def test_a_torch_that_does_not_say_its_commit(tmp_path, pip):
    headers_of("2.13.0", tmp_path)
    (tmp_path / "2.13.0" / "torch" / "version.py").write_text("git_version = 'Unknown'\n")
    with pytest.raises(ReleaseError, match="does not say which commit"):
        headers_of("2.13.0", tmp_path)


def test_releases_that_cannot_be_had_are_named(tmp_path, pip, monkeypatch):
    made = []
    monkeypatch.setattr(bridges, "_let_link", lambda folder: None)

    def compile_bridge(build, source, library, more):
        made.append((build.version, build.cxx11_abi))
        library.write_bytes(build.version.encode())

    monkeypatch.setattr(bridges, "compile_bridge", compile_bridge)
    releases = [TorchRelease("2.13.0", (False, True)), TorchRelease("9.0.0", (True,))]
    said = []
    result = bridges.make_bridges(releases, tmp_path, tmp_path / "work", said.append)
    assert sorted(made) == [("2.13.0", False), ("2.13.0", True)]
    assert list(result.missing) == ["9.0.0"] and "9.0.0" in said[0]
    index = json.loads((result.folder / "bridges.json").read_text())["bridges"]
    assert {entry["cxx11_abi"] for entry in index} == {"0", "1"}
    assert {entry["torch_git"] for entry in index} == {"a" * 40}
    for entry in index:
        content = (result.folder / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["library"]


def test_every_listed_release_is_one_that_bridges_are_found_for():
    assert len(listed()) > 10
    assert len({one.release for one in listed()}) == len(listed())
    assert all(release_of(f"{one.release}+cpu") == one.release for one in listed())
    assert all(one.cxx11_abis for one in listed())


def test_checksums_are_those_that_sha256sum_checks(tmp_path):
    files = [tmp_path / "b.whl", tmp_path / "a.tar.gz"]
    for file in files:
        file.write_text(file.name)
    sums = vouching.write_checksums(files, tmp_path)
    check = ["sha256sum", "--check", "--strict", sums.name]
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 0
    files[0].write_text("changed")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True).returncode == 1


def test_the_statement_names_what_was_made_and_of_what(tmp_path):
    file = tmp_path / "a.whl"
    file.write_text("wheel")
    path = vouching.write_statement(
        [file],
        tmp_path,
        commit="abc",
        materials=[("torch.whl", "def")],
        parameters={"wheels": []},
        began=datetime.now(timezone.utc),
    )
    statement = json.loads(path.read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert statement["subject"] == [{"name": "a.whl", "digest": {"sha256": vouching.sha256(file)}}]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"][0]["digest"] == {"gitCommit": "abc"}
    assert definition["resolvedDependencies"][1]["name"] == "torch.whl"


def test_what_fails_says_what_it_said():
    with pytest.raises(ReleaseError, match=r"exited with 3:\nsaid"):
        run([sys.executable, "-c", "import sys; print('said'); sys.exit(3)"])
    with pytest.raises(ReleaseError, match="no-such-program"):
        run(["no-such-program"])
    with pytest.raises(ReleaseError, match="timed out"):
        run(["sleep", "10"], timeout_s=0.1)
