"""What is typed at a terminal while something is shown there."""

import os
import pty
import subprocess
import sys
import termios

import pytest

from opscope.cli.top import TypedKeys

ASK = """
import os, sys, time
from opscope.cli.top import TypedKeys
with TypedKeys() as keys:
    print("ready", flush=True)
    print("typed" if keys.wait_for(b"qQ", 60) else "waited", flush=True)
"""


@pytest.fixture
def asking():
    """A program on a terminal of its own, the end of that which people type at, and the other."""
    typing, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    command = f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0){ASK}"
    process = subprocess.Popen(
        [sys.executable, "-c", command],
        stdin=terminal,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "ready\n"
    yield process, typing, terminal, before
    process.kill()
    process.wait()
    process.stdout.close()
    os.close(terminal)
    os.close(typing)


def test_a_key_ends_the_wait_without_a_newline_and_leaves_the_terminal_as_it_was(asking):
    process, typing, terminal, before = asking
    assert not termios.tcgetattr(terminal)[3] & termios.ICANON
    os.write(typing, b"xq")
    assert process.stdout.readline() == "typed\n"
    assert process.wait(timeout=60) == 0
    assert termios.tcgetattr(terminal) == before


def test_without_a_terminal_nothing_is_typed():
    reading, writing = os.pipe()
    os.write(writing, b"q")
    with TypedKeys(reading) as keys:
        assert not keys.wait_for(b"q", 0.01)
    assert os.read(reading, 1) == b"q"
    os.close(reading)
    os.close(writing)
