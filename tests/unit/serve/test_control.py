"""Folders of recordings stay below the root."""

import contextlib
import os

import pytest

from opscope.errors import UsageError
from opscope.serve.control import new_folder


def test_a_recording_gets_a_folder_of_its_own(tmp_path):
    made = [new_folder(tmp_path / "root", "a/b", "slow") for _ in range(3)]
    assert len(set(made)) == 3
    assert {one.parent for one in made} == {tmp_path / "root/a/b"}
    assert all(one.name.startswith("slow-") for one in made)


@pytest.mark.parametrize(
    "place",
    [
        "..",
        "a/../../b",
        "/etc",
        ".hidden",
        "a\0b",
        "a b",
    ],
)
def test_a_place_elsewhere_is_refused(tmp_path, place):
    with pytest.raises(UsageError, match="output_dir"):
        new_folder(tmp_path / "root", place, "")
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


@pytest.mark.parametrize("prefix", ["a/b", "..", "a b", "x;y"])
def test_a_prefix_is_a_plain_name(tmp_path, prefix):
    with pytest.raises(UsageError, match="profile_prefix"):
        new_folder(tmp_path, "", prefix)


def test_links_are_not_followed(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "file").write_text("")
    for place in ("link", "link/a", "file", "file/a"):
        with pytest.raises(UsageError, match="link or a file"):
            new_folder(root, place, "")
    assert not any(outside.iterdir())


def test_ranks_share_a_folder(tmp_path):
    first = new_folder(tmp_path, "a", "slow", "verdict-rank-0.json")
    assert first == tmp_path / "a/slow" == new_folder(tmp_path, "a", "slow", "verdict-rank-1.json")
    (first / "verdict-rank-1.json").write_text("{}")
    with pytest.raises(UsageError, match="another profile_prefix"):
        new_folder(tmp_path, "a", "slow", "verdict-rank-1.json")
    with pytest.raises(UsageError, match="profile_prefix"):
        new_folder(tmp_path, "a", "", "verdict-rank-0.json")


def test_no_descriptor_is_left(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for place in ("a/b/c", "a", "../x"):
        with contextlib.suppress(UsageError):
            new_folder(tmp_path, place, "")
    assert len(os.listdir("/proc/self/fd")) == before
