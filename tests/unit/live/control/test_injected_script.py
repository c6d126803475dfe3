"""What an interpreter runs that is asked to listen: nothing, unless its own user asks right now."""

import os
import runpy
import sys
import threading
import time
from pathlib import Path

import pytest

import opscope
from opscope.errors import ReachError
from opscope.live.control import injection, server
from opscope.live.control.address import address_of, opened_folder
from opscope.live.control.client import ControlClient
from support.processes import run_python

SCRIPT = Path(injection.__file__).with_name("injected_script.py")

pytest_plugins = ["support.reached_programs"]
pytestmark = [
    pytest.mark.usefixtures("runtime"),
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]


def run_script(*_):
    """As the interpreter does, and until what that began is over."""
    before = set(threading._active) | set(sys._current_frames())
    runpy.run_path(str(SCRIPT))
    until = time.monotonic() + 20
    while address_of(os.getpid()) is None and time.monotonic() < until:
        time.sleep(0.01)
        if set(sys._current_frames()) <= before:
            break


@pytest.fixture
def asked(monkeypatch):
    """An interpreter that can be asked: this one, at once."""
    monkeypatch.setattr(sys, "remote_exec", run_script, raising=False)
    yield
    ends()


def ends():
    until = time.monotonic() + 20
    while server.is_listening() and time.monotonic() < until:
        time.sleep(0.01)
    assert not server.is_listening()
    assert address_of(os.getpid()) is None


def own_folder():
    folder, opened = opened_folder(os.getuid())
    os.close(opened)
    return folder


def place_request():
    request = own_folder() / f"{os.getpid()}.request"
    request.symlink_to(Path(opscope.__file__).parent)
    return request


def test_it_listens_for_as_long_as_somebody_asks(asked):
    with injection.reach(os.getpid()) as asking:
        assert asking.status["process"] == os.getpid()
        assert asking.status["recording"] is False
    ends()


def test_a_server_without_requests_ends_after_a_while(asked, monkeypatch):
    monkeypatch.setattr(server, "_FIRST_CLIENT_S", 0.1)
    request = place_request()
    run_script()
    request.unlink()
    ends()


def test_a_request_that_was_taken_back_does_nothing(monkeypatch, capfd):
    scripts = []
    monkeypatch.setattr(sys, "remote_exec", lambda *asked: scripts.append(asked), raising=False)
    monkeypatch.setattr(injection, "_LISTENING_S", 0.1)
    with pytest.raises(ReachError, match=r"did not start to listen within 0\.1 s"):
        injection.reach(os.getpid())
    assert len(scripts) == 1
    run_script()
    assert address_of(os.getpid()) is None
    assert capfd.readouterr() == ("", "")


def test_what_one_left_who_was_killed_is_replaced_and_removed(asked):
    request = own_folder() / f"{os.getpid()}.request"
    request.symlink_to("/nowhere")
    with injection.reach(os.getpid()) as asking:
        assert asking.status["process"] == os.getpid()
        assert not request.is_symlink()


def test_a_program_that_cannot_find_opscope_gets_its_path(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.read_text())
    program = """
import os, runpy, sys, time
class Without:
    def find_spec(self, name, path=None, target=None):
        if name == "opscope":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without())
place = f"/tmp/opscope-{os.getuid()}"
os.makedirs(place, 0o700, exist_ok=True)
request = f"{place}/{os.getpid()}.request"
os.symlink(sys.argv[1], request)
runpy.run_path("script.py")
until = time.monotonic() + 20
while "opscope.live.control.server" not in sys.modules and time.monotonic() < until:
    time.sleep(0.01)
os.unlink(request)
print(sys.modules["opscope.live.control.server"].__file__)
"""
    package = Path(opscope.__file__).parent
    done = run_python("-c", program, package, cwd=tmp_path)
    assert done.stdout.strip() == str(package / "live" / "control" / "server.py"), done.stderr


def test_a_folder_that_others_can_enter_is_not_looked_into(asked):
    folder, request = own_folder(), place_request()
    folder.chmod(0o777)
    try:
        run_script()
        assert address_of(os.getpid()) is None
        with pytest.raises(ReachError, match="accessible to other users"):
            injection.reach(os.getpid())
    finally:
        folder.chmod(0o700)
        request.unlink()


def test_a_socket_of_an_earlier_process_of_that_number_is_not_asked(asked):
    path = server.socket_path(os.getpid())
    earlier = server.bound(path)
    earlier.close()
    os.utime(path, (1, 1))
    with injection.reach(os.getpid()) as asking:
        assert isinstance(asking, ControlClient)


def test_a_program_that_listens_itself_goes_on(asked):
    with injection.reach(os.getpid()):
        server.listen()
    time.sleep(0.2)
    assert server.is_listening()
    server.stop_listening()
