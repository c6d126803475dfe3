"""Who else could change a file: owners, modes, groups and links, of the file and all above it."""

import grp
import os
import pwd
from types import SimpleNamespace

import pytest

from opscope.recording.bridge.private_places import why_not_private

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
