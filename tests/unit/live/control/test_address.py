"""Where processes listen, and whom to trust."""

import os
import socket
import subprocess

import pytest

from opscope.errors import ReachError
from opscope.live.control import address


@pytest.fixture(autouse=True)
def runtime(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def listen_at(path):
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    return listening


def test_the_folder_is_the_users_alone_and_a_link_in_its_place_is_refused(runtime, tmp_path):
    folder = address.own_folder()
    assert folder == runtime / "opscope"
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ReachError, match="not trusted"):
        address.own_folder()


def test_a_socket_in_a_folder_that_others_can_enter_is_not_asked(runtime):
    with listen_at(address.socket_path(os.getpid())):
        (runtime / "opscope").chmod(0o777)
        with pytest.raises(ReachError, match="not trusted"):
            address.address_of(os.getpid())
        assert [one for one in address.addresses() if one.path.parent.parent == runtime] == []


def test_a_process_that_listens_is_found_and_one_that_is_gone_is_cleared_away(runtime):
    gone = subprocess.Popen(["true"])
    gone.wait()
    with listen_at(address.socket_path(os.getpid())), listen_at(address.socket_path(gone.pid)):
        assert address.address_of(os.getpid()).path == runtime / "opscope" / f"{os.getpid()}.sock"
        known = {one.process: one for one in address.addresses()}
        assert address.remove_if_stale(known[gone.pid])
        assert not address.remove_if_stale(known[os.getpid()])
        assert address.address_of(gone.pid) is None


def test_one_that_is_left_goes_although_another_process_has_its_number(runtime):
    with listen_at(address.socket_path(os.getppid())):
        pass
    (known,) = address.addresses()
    assert not address.remove_if_stale(known)  # it may be about to listen
    os.utime(known.path, (1, 1))
    assert address.remove_if_stale(known)
    assert address.addresses() == []


def test_a_folder_with_too_long_a_name_is_not_used(runtime, monkeypatch):
    deep = runtime / ("x" * 100)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    assert address.socket_path(1).parent.parent != deep


def test_one_who_listens_under_a_number_that_no_process_has_here_stays(runtime):
    elsewhere = subprocess.Popen(["true"])  # in a container whose folder this is, say
    elsewhere.wait()
    with listen_at(address.socket_path(elsewhere.pid)) as listening:
        listening.listen(1)
        (known,) = address.addresses()
        assert not address.remove_if_stale(known)
        assert known.path.exists()
