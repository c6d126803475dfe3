"""Bridges that ship with opscope."""

import grp
import json
import os
import pwd
import re
import shutil
from types import SimpleNamespace

import pytest

from opscope.errors import BridgeError
from opscope.recording.bridge import bridge, torch_build
from opscope.recording.bridge.torch_build import (
    find_prebuilt,
    index_entry,
    release_of,
    ships_for,
    why_not_private,
)

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


SOMEBODY = 54321


@pytest.fixture
def library(tmp_path):
    file = tmp_path / "outer" / "inner" / "library.so"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"code")
    file.chmod(0o644)
    for folder in (file.parent, file.parent.parent):
        folder.chmod(0o755)
    return file


@pytest.fixture
def belongs_to(monkeypatch):
    """Lets one path seem to have another owner or group."""
    really = os.lstat

    def belongs_to(path, owner=None, group=None):
        def lstat(asked):
            status = really(asked)
            if os.fspath(asked) != os.fspath(path):
                return status
            fields = list(status)
            fields[4] = status.st_uid if owner is None else owner
            fields[5] = status.st_gid if group is None else group
            return os.stat_result(fields)

        monkeypatch.setattr(os, "lstat", lstat)

    return belongs_to


def places(library):
    return {"file": library, "folder": library.parent, "above": library.parent.parent}


@pytest.mark.parametrize("where", ["file", "folder", "above"])
def test_it_belongs_to_us_or_root(library, belongs_to, where, monkeypatch):
    place = places(library)[where]
    belongs_to(place, owner=SOMEBODY)
    assert why_not_private(library) == f"{place} belongs to user {SOMEBODY}"
    belongs_to(place, owner=0)
    assert why_not_private(library) is None


@pytest.mark.parametrize("where", ["file", "folder", "above"])
def test_everybody_may_write(library, where):
    place = places(library)[where]
    place.chmod(place.stat().st_mode | 0o002)
    assert why_not_private(library) == f"all users may write to {place}"
    if where != "file":
        place.chmod(0o1777)  # only owners remove files there
        assert why_not_private(library) is None


def known_group(monkeypatch, members, primary_of=()):
    users = {
        "me": SimpleNamespace(pw_uid=os.geteuid(), pw_gid=1, pw_name="me"),
        "other": SimpleNamespace(pw_uid=SOMEBODY, pw_gid=1, pw_name="other"),
    }
    for name in primary_of:
        users[name].pw_gid = SOMEBODY
    found = SimpleNamespace(gr_mem=members, gr_name="team")
    monkeypatch.setattr(grp, "getgrgid", lambda gid: found)
    monkeypatch.setattr(pwd, "getpwnam", lambda name: users[name])
    monkeypatch.setattr(pwd, "getpwall", lambda: list(users.values()))


@pytest.mark.parametrize("where", ["file", "folder", "above"])
@pytest.mark.parametrize(
    ("members", "primary_of", "private"),
    [
        ([], [], True),
        (["me"], [], True),
        ([], ["me"], True),
        (["me", "other"], [], False),
        ([], ["other"], False),
        (["nobody knows"], [], False),
    ],
)
def test_a_group_may_write(library, belongs_to, monkeypatch, where, members, primary_of, private):
    known_group(monkeypatch, members, primary_of)
    place = places(library)[where]
    place.chmod(place.stat().st_mode | 0o020)
    belongs_to(place, group=SOMEBODY)
    expected = None if private else f"group team may write to {place}"
    assert why_not_private(library) == expected


def test_a_group_that_this_system_does_not_know(library, belongs_to):
    library.chmod(0o664)
    belongs_to(library, group=SOMEBODY)
    assert why_not_private(library) == f"group {SOMEBODY} may write to {library}"


def test_where_a_link_lies_and_where_it_leads_counts(library, tmp_path):
    folder = tmp_path / "links"
    folder.mkdir()
    link = folder / "link.so"
    link.symlink_to(library)
    assert why_not_private(link) is None
    for place in (folder, library.parent):
        place.chmod(0o777)
        assert why_not_private(link) == f"all users may write to {place}"
        place.chmod(0o755)


def test_what_is_not_there_is_judged_by_what_is_above(library):
    missing = library.parent / "none" / "at all"
    assert why_not_private(missing) is None
    library.parent.chmod(0o777)
    assert why_not_private(missing) == f"all users may write to {library.parent}"


def test_what_cannot_be_looked_at(library, monkeypatch):
    def lstat(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "lstat", lstat)
    assert "cannot be read (Permission denied)" in why_not_private(library)


def test_a_circle_of_links(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    why_not_private(tmp_path / "a")
