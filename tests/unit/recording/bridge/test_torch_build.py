"""Bridges that ship with opscope."""

import json
import re
import shutil

import pytest

from opscope.errors import BridgeError
from opscope.recording.bridge import bridge, torch_build
from opscope.recording.bridge.torch_build import find_prebuilt, index_entry, release_of, ships_for

pytest.importorskip("torch")

FINGERPRINT = {
    "torch": "2.13.0+cpu",
    "torch_git": "abc",
    "cxx11_abi": "1",
    "platform": "linux-x86_64",
    "flags": "-O2",
    "source": "def",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What ships: one library, for the release of FINGERPRINT."""
    shipped = tmp_path / "prebuilt_bridges"
    shipped.mkdir()
    monkeypatch.setattr(torch_build, "folder", lambda: shipped)
    put(shipped, {**FINGERPRINT, "torch": "2.13.0"}, b"library")
    return shipped


def put(folder, fingerprint, content):
    library = folder / "torch-2.13.0.so"
    library.write_bytes(content)
    entries = [index_entry({**fingerprint, "torch": "2.9.1"}, library)]
    entries.append(index_entry(fingerprint, library))
    (folder / "bridges.json").write_text(json.dumps({"bridges": entries}))


@pytest.mark.parametrize("version", ["2.13.0", "2.13.0+cpu", "2.13.0+cu130"])
def test_one_serves_all_builds_of_a_release(folder, version):
    found = find_prebuilt({**FINGERPRINT, "torch": version})
    assert found.path == folder / "torch-2.13.0.so"
    assert (found.torch_release, found.problem) == ("2.13.0", None)


@pytest.mark.parametrize(
    "version", ["2.13.0a0+git123", "2.13.0.dev20260101", "2.13.0+rocm6", "2.13.0+mine", "2.13", ""]
)
def test_builds_of_ones_own_are_compiled_for(folder, version):
    assert release_of(version) is None
    assert find_prebuilt({**FINGERPRINT, "torch": version}) is None


@pytest.mark.parametrize("what", [key for key in FINGERPRINT if key != "torch"])
def test_everything_else_has_to_be_the_same(folder, what):
    assert find_prebuilt({**FINGERPRINT, what: "other"}) is None


def test_a_release_that_none_is_for(folder):
    assert find_prebuilt({**FINGERPRINT, "torch": "2.13.1"}) is None
    assert ships_for("2.13.0") and ships_for("2.9.1") and not ships_for("2.13.1")


@pytest.mark.parametrize("content", [b"libr", b"Library", b""])
def test_a_file_that_is_not_what_was_shipped_or_that_others_can_write(folder, content):
    library = folder / "torch-2.13.0.so"
    library.write_bytes(content)
    assert find_prebuilt(FINGERPRINT).problem == f"{library} differs from the shipped file"
    library.chmod(0o666)
    assert find_prebuilt(FINGERPRINT).problem == f"all users may write to {library}"


@pytest.mark.parametrize("index", ["", "{", "[]", "{}", '{"bridges": 3}', '{"bridges": [1, null]}'])
def test_a_damaged_index_has_none(folder, index):
    (folder / "bridges.json").write_text(index)
    assert find_prebuilt(FINGERPRINT) is None and not ships_for("2.13.0")


def test_no_entry_leads_out_of_the_folder(folder):
    entry = {**FINGERPRINT, "torch": "2.13.0", "file": "/etc/../etc/passwd", "library": ""}
    (folder / "bridges.json").write_text(json.dumps({"bridges": [entry]}))
    assert find_prebuilt(FINGERPRINT).path == folder / "passwd"


@pytest.fixture
def shipped(tmp_path, monkeypatch, folder):
    """As after installing a wheel that has one for the torch here; no compiler, an empty cache."""
    real = bridge.build()  # of this torch, usually there already
    release = release_of(bridge._fingerprint()["torch"])
    if release is None:
        pytest.skip("this torch is no release")
    put(folder, {**bridge._fingerprint(), "torch": release}, real.read_bytes())
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("OPSCOPE_CACHE", str(tmp_path / "cache"))
    bridge._notice_once.cache_clear()
    return folder / "torch-2.13.0.so"


def test_nothing_is_compiled_where_one_ships(shipped, tmp_path):
    assert bridge.build() == shipped
    status = bridge.status()
    assert status.built and status.shipped and status.path == shipped and status.compiler is None
    assert not (tmp_path / "cache").exists()


def test_what_was_compiled_here_comes_first(shipped):
    path = bridge._library_path()
    path.parent.mkdir(parents=True)
    shutil.copy(shipped, path)
    (path.parent / "stamp.json").write_text(json.dumps(bridge._stamp(path)))
    assert bridge.build() == path and not bridge.status().shipped


def test_one_that_must_not_be_loaded_is_reported_once(shipped, capsys):
    shipped.write_bytes(b"other")
    for _ in range(2):
        with pytest.raises(BridgeError, match=r"no C\+\+ compiler"):
            bridge.build()
    assert capsys.readouterr().err.count("ships with opscope is not used: ") == 1


def test_one_that_says_it_is_for_another_torch(shipped, monkeypatch):
    monkeypatch.setattr(bridge, "_loaded", None)
    monkeypatch.setattr(bridge._native, "attach_bridge", lambda path: "1.9.1")
    with pytest.raises(BridgeError, match=r"compiled for torch 1\.9\.1.*build --force"):
        bridge.load()


def test_a_bridge_calls_nothing_of_python():
    """So one serves all versions of Python."""
    symbols = set(bridge.build().read_bytes().split(b"\0"))
    assert b"opscope_attach" in symbols
    assert [name for name in symbols if re.fullmatch(rb"_?Py[A-Za-z]*_[A-Za-z_]*", name)] == []
