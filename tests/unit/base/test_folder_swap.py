"""A trace that is read and written while others replace it is the old or the new one, whole."""

import os

import pytest

from opscope import load_trace
from opscope.base import folder_swap
from opscope.base.folder_swap import read_unreplaced, replace_folder
from opscope.errors import TraceFormatError
from opscope.storage.store import save_part
from support.build_trace import build_trace, span

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")


@pytest.fixture
def folder(tmp_path):
    """Makes a new folder that holds one file of this content."""

    def make(name, content):
        made = tmp_path / name
        made.mkdir()
        (made / "file").write_text(content)
        return made

    return make


@pytest.fixture(params=["exchanged", "moved aside"])
def file_system(request, monkeypatch):
    if request.param == "moved aside":
        monkeypatch.setattr(folder_swap, "_exchange", lambda one, other: False)


def contents(folder):
    return sorted(file.read_text() for file in folder.rglob("file"))


@pytest.mark.usefixtures("file_system")
def test_the_new_folder_takes_the_place_of_the_old_one(folder, tmp_path):
    final, new, aside = folder("final", "old"), folder("new", "new"), tmp_path / "aside"
    aside.mkdir()
    replace_folder(final, new, aside)
    assert contents(final) == ["new"]
    assert contents(tmp_path) == ["new", "old"]


def test_another_process_may_be_quicker_to_move_the_old_one_aside(folder, tmp_path, monkeypatch):
    final, new, aside = folder("final", "old"), folder("new", "new"), tmp_path / "aside"
    aside.mkdir()

    def other_process(one, other):
        if final.exists():
            os.rename(final, tmp_path / "taken")
            folder("final", "other")
            monkeypatch.setattr(folder_swap, "_exchange", lambda one, other: False)
        return False

    monkeypatch.setattr(folder_swap, "_exchange", other_process)
    replace_folder(final, new, aside)
    assert contents(final) == ["new"]
    assert contents(aside) == ["other"]


def test_what_was_replaced_meanwhile_is_read_again(folder):
    found = folder("found", "first")
    replacements = iter(["second", "third"])

    def read(path):
        text = (path / "file").read_text()
        for replacement in replacements:
            path.rename(path.with_name(f"before {replacement}"))
            folder("found", replacement)
            if replacement == "third":
                raise TraceFormatError("damaged: half of it is gone")
            break
        return text

    assert read_unreplaced(read, lambda: found) == "third"


def test_what_is_damaged_is_reported_at_once_and_what_never_stays_is_not_waited_for_forever(folder):
    attempts = []

    def read(path):
        attempts.append(path)
        raise TraceFormatError("damaged")

    found = folder("found", "")
    for path in (found, found / "not there"):
        with pytest.raises(TraceFormatError, match="damaged"):
            read_unreplaced(read, lambda path=path: path)
    assert attempts == [found, found / "not there"]

    def replaced(path):
        path.rename(path.with_name(f"before {len(attempts)}"))
        attempts.append(folder("found", ""))

    with pytest.raises(TraceFormatError, match="replaced repeatedly"):
        read_unreplaced(replaced, lambda: found)


def test_one_reads_while_two_write(tmp_path):
    path = tmp_path / "trace"
    sizes = (20, 2000)
    traces = [
        build_trace([span(f"op{n}", 10 * i, 10 * i + 5) for i in range(n)], metadata={"n": n})
        for n in sizes
    ]
    save_part(traces[0], path)
    writers = []
    for first in range(2):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for number in range(15):
                    save_part(traces[(number + first) % 2], path)
                status = 0
            finally:
                os._exit(status)
        writers.append(child)
    codes = {}
    while len(codes) < 2:
        found = load_trace(path)
        n = len(found.events)
        assert n in sizes
        assert (found.metadata["n"], found.event_name(n - 1)) == (n, f"op{n}")
        for child in set(writers) - set(codes):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                codes[child] = os.waitstatus_to_exitcode(status)
    assert list(codes.values()) == [0, 0]
    assert [entry.name for entry in path.iterdir()] == ["rank=00000"]
