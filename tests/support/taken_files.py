"""A pytest plugin: processes that run the same tests share them out, file by file.

Each takes the next file that no other has taken. Several processes, and not workers of one that
talk to it on threads of their own: what tests record is everything that goes on in their process.
So it is said at the end which tests left threads, which later ones of the process record.
"""

import os
import threading
from itertools import chain, groupby, pairwise
from pathlib import Path

import pytest

FOLDER = Path(os.environ.pop("OPSCOPE_TESTS_TAKEN"))
"""With a file for each file of tests that is taken, and for each process some that say what it is
doing, what it has done, what failed (after a tab the first line of why) and why in full (see
``supervised``). No program under test sees the variable."""

DONE = {line for file in FOLDER.glob("done-*") for line in file.read_text().splitlines()}
"""The tests that processes before this one ran: one that goes on with a file leaves them out."""

LEFT = {}
"""By test the threads that it left, as text."""


def mark_of(path):
    """The name of the file that says that tests of this one are taken."""
    return str(path).replace(os.sep, "-")


def is_taken(path):
    """Whether another process has it; else it is this one's from now on."""
    try:
        (FOLDER / mark_of(path)).touch(exist_ok=False)
    except FileExistsError:
        return True
    return False


def own_items(items):
    for path, of_file in groupby(items, key=lambda item: item.path):
        if not is_taken(path):
            yield from (item for item in of_file if item.nodeid not in DONE)


def say_doing(item):
    (FOLDER / f"doing-{os.getpid()}").write_text(f"{item.nodeid}\n{mark_of(item.path)}\n")


def say_done(item):
    with FOLDER.joinpath(f"done-{os.getpid()}").open("a") as file:
        file.write(f"{item.nodeid}\n")


def pytest_runtestloop(session):
    if session.config.option.collectonly or session.testsfailed:
        return None
    known = set(threading.enumerate())
    # Each with the next one, so that what both need is not taken down in between.
    for item, following in pairwise(chain(own_items(session.items), [None])):
        say_doing(item)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        say_done(item)
        if left := set(threading.enumerate()) - known:
            LEFT[item.nodeid] = sorted(map(str, left))
            known |= left
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    return True


def pytest_terminal_summary(terminalreporter):
    for test, threads in LEFT.items():
        terminalreporter.write_line(f"{test} left threads: {', '.join(threads)}")


def pytest_runtest_logreport(report):
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        why = (crash.message if crash else report.longreprtext).strip().split("\n")[0][:200]
        for kind, text in (("failed", f"{report.nodeid}\t{why}"), ("why", report.longreprtext)):
            with FOLDER.joinpath(f"{kind}-{os.getpid()}").open("a") as file:
                file.write(f"{text}\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """What takes longest first, so that no process is left with it at the end."""
    items.sort(key=lambda item: ("integration" not in item.path.parts, item.path.parts))
