"""Files in a folder that somebody sent: what is opened there, and what is removed."""

import os
import socket

import pytest

from opscope.base.files import open_inside, read_inside, remove_inside

WRITE = os.O_RDWR | os.O_CREAT


@pytest.fixture
def sent(tmp_path):
    folder = tmp_path / "sent"
    folder.mkdir()
    return folder


@pytest.fixture
def mine(tmp_path):
    """A folder outside, with a file that nobody is to touch."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/secret").write_text("mine")
    return tmp_path / "mine"


def test_a_plain_file_is_read_however_the_folder_is_named(sent, tmp_path):
    (sent / "inner").mkdir()
    (sent / "inner/file").write_text("text")
    (tmp_path / "named").symlink_to(sent)
    assert read_inside(tmp_path / "named", "inner/file", 4) == b"text"


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR, WRITE])
@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "socket", "device", "folder"])
def test_what_is_no_plain_file_is_refused_at_once(sent, mine, kind, flags, monkeypatch):
    monkeypatch.chdir(sent)
    if kind == "link":
        os.symlink(mine / "secret", "file")
    elif kind == "dangling":
        os.symlink(mine / "new", "file")
    elif kind == "pipe":
        os.mkfifo("file")
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("file")
    elif kind == "device":
        if os.geteuid() != 0:
            pytest.skip("only root makes devices")
        os.mknod("file", 0o020600, os.makedev(1, 5))
    else:
        os.mkdir("file")
    with pytest.raises(OSError, match=r"it is a (link|pipe|socket|device|folder)"):
        open_inside(sent, "file", flags)
    assert os.listdir(mine) == ["secret"]


def test_a_folder_on_the_way_that_is_a_link_is_not_followed(sent, mine):
    (sent / "inner").symlink_to(mine)
    for flags in (os.O_RDONLY, WRITE):
        with pytest.raises(OSError, match="it is a link"):
            open_inside(sent, "inner/secret", flags)
    remove_inside(sent, "inner/secret")
    assert (mine / "secret").exists()


@pytest.mark.parametrize("name", ["..", "../mine/secret", "inner/../../mine/secret", "", "."])
def test_names_do_not_lead_out_of_the_folder(sent, mine, name):
    (sent / "inner").mkdir()
    with pytest.raises(OSError, match="points outside"):
        open_inside(sent, name)


def test_removing_a_link_leaves_what_it_points_to(sent, mine):
    (sent / "folder").symlink_to(mine)
    (sent / "file").symlink_to(mine / "secret")
    (sent / "tree/inner").mkdir(parents=True)
    (sent / "tree/inner/link").symlink_to(mine)
    (sent / "tree/file").symlink_to(mine / "secret")
    (sent / "tree/inner/plain").touch()
    for name in ("folder", "file", "tree", "nothing"):
        remove_inside(sent, name)
    assert os.listdir(sent) == [] and os.listdir(mine) == ["secret"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_belongs_to_another_user_is_read_and_not_written(sent):
    (sent / "file").write_text("theirs")
    os.chown(sent / "file", 4242, 4242)
    assert read_inside(sent, "file", 100) == b"theirs"
    with pytest.raises(OSError, match="belongs to user 4242"):
        open_inside(sent, "file", os.O_RDWR)


def test_one_that_is_larger_than_it_may_be_is_refused(sent):
    (sent / "file").write_text("text")
    with pytest.raises(OSError, match="more than 3 bytes"):
        read_inside(sent, "file", 3)
