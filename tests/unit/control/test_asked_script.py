"""What an interpreter runs that is asked to listen: nothing, unless its own user asks right now."""

import importlib
import os
import runpy
import sys
import threading
import time
from pathlib import Path

import pytest

from opscope.control import injection, server
from opscope.control.address import address_of, opened_folder
from opscope.control.client import Asking
from opscope.errors import ReachError

SCRIPT = Path(injection.__file__).with_name("asked_script.py")

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
    finders = list(sys.meta_path)
    yield
    ends()
    assert sys.meta_path == finders


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


def place_request(said=None, mode=0o600, asker=None):
    request = own_folder() / f"{os.getpid()}.asked-{asker or os.getppid()}"
    request.write_bytes(b"%d" % (time.monotonic_ns() + 10**10) if said is None else said)
    request.chmod(mode)
    return request


def test_it_listens_for_as_long_as_somebody_asks(asked):
    with injection.reach(os.getpid()) as asking:
        assert asking.status["process"] == os.getpid()
        assert asking.status["recording"] is False
    ends()


def test_one_that_leaves_takes_nothing_from_another(asked):
    first = injection.reach(os.getpid())
    second = injection.reach(os.getpid())
    first.close()
    time.sleep(0.2)
    assert second.ask("status")["process"] == os.getpid()
    assert server.is_listening()
    second.close()


def test_what_was_started_keeps_it_until_somebody_has_it(asked):
    pytest.importorskip("torch")
    with injection.reach(os.getpid()) as asking:
        asking.ask("start", recorded={})
    time.sleep(0.2)
    with injection.reach(os.getpid()) as asking:
        assert asking.status["started"] is True
        log, _ = asking.log_of("stop")
        assert log


def test_a_program_that_listens_itself_goes_on(asked):
    with injection.reach(os.getpid()):
        server.listen()
    time.sleep(0.2)
    assert server.is_listening()
    server.stop_listening()


def test_one_that_nobody_asks_ends_after_a_while(asked, monkeypatch):
    monkeypatch.setattr(server, "_FIRST_S", 0.1)
    request = place_request()
    run_script()
    request.unlink()
    ends()


def test_a_request_that_was_taken_back_does_nothing(monkeypatch, capfd):
    scripts = []
    monkeypatch.setattr(sys, "remote_exec", lambda *asked: scripts.append(asked), raising=False)
    monkeypatch.setattr(injection, "_LISTENING_S", 0.1)
    with pytest.raises(ReachError, match=r"does not within 0\.1 s"):
        injection.reach(os.getpid())
    assert len(scripts) == 1
    run_script()
    assert address_of(os.getpid()) is None
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("said", [b"", b"{", b"soon\0there", b"1\0there"])
def test_a_request_that_is_none_does_nothing(said, capfd):
    request = place_request(said)
    try:
        run_script()
        assert address_of(os.getpid()) is None
        assert capfd.readouterr() == ("", "")
    finally:
        request.unlink()


def test_a_request_beside_one_that_is_none_is_answered(asked):
    request = place_request(b"")
    try:
        with injection.reach(os.getpid()) as asking:
            assert asking.status["process"] == os.getpid()
    finally:
        request.unlink()


def test_a_request_of_one_that_was_killed_does_nothing_and_is_removed_by_the_next(asked):
    request = place_request(asker=2**22 + 1)
    run_script()
    assert address_of(os.getpid()) is None
    with injection.reach(os.getpid()):
        assert not request.exists()


def test_a_program_that_has_no_place_for_finders_is_said_to_have_none(asked, monkeypatch, capfd):
    monkeypatch.setattr(sys, "meta_path", tuple(sys.meta_path))
    with pytest.raises(ReachError, match="cannot: AttributeError: 'tuple' object"):
        injection.reach(os.getpid())
    monkeypatch.undo()
    assert capfd.readouterr() == ("", "")
    assert list(own_folder().glob(f"{os.getpid()}.asked-*")) == []


def test_a_request_that_others_can_change_does_nothing():
    request = place_request(mode=0o622)
    try:
        run_script()
        assert address_of(os.getpid()) is None
    finally:
        request.unlink()


def test_a_folder_that_others_can_enter_is_not_looked_into(asked):
    folder, request = own_folder(), place_request()
    folder.chmod(0o777)
    try:
        run_script()
        assert address_of(os.getpid()) is None
        with pytest.raises(ReachError, match="not a folder that only its user can enter"):
            injection.reach(os.getpid())
    finally:
        folder.chmod(0o700)
        request.unlink()


def test_what_stands_in_the_way_is_told_to_whoever_asks(asked, monkeypatch, capfd):
    def fail(modules):
        modules.take_back()
        raise ImportError("there is no NumPy here")

    monkeypatch.setattr(server, "listen_while_asked", fail)
    with pytest.raises(ReachError, match="cannot: ImportError: there is no NumPy here"):
        injection.reach(os.getpid())
    assert capfd.readouterr() == ("", "")


def test_modules_are_lent_to_threads_of_ours_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "only_there.py").write_text("")
    lent = runpy.run_path(str(SCRIPT))["BorrowedModules"]([str(tmp_path)])
    lent.lend()
    failed = []

    def of_the_program():
        try:
            importlib.import_module("only_there")
        except ModuleNotFoundError as error:
            failed.append(error)

    try:
        other = threading.Thread(target=of_the_program)
        other.start()
        other.join()
        assert len(failed) == 1
        assert importlib.import_module("only_there").__file__ == str(tmp_path / "only_there.py")
    finally:
        lent.take_back()
        sys.modules.pop("only_there", None)
    of_the_program()
    assert len(failed) == 2


def test_a_socket_of_an_earlier_process_of_that_number_is_not_asked(asked):
    path = server.socket_path(os.getpid())
    earlier = server.bound(path)
    earlier.close()
    os.utime(path, (1, 1))
    with injection.reach(os.getpid()) as asking:
        assert isinstance(asking, Asking)
