"""Programs that run while they are asked, and the command that asks them."""

import contextlib
import os
import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def runtime(tmp_path_factory, monkeypatch):
    """A folder of its own for sockets, which is the current one."""
    folder = tmp_path_factory.mktemp("run")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.chdir(folder)
    return folder


@contextlib.contextmanager
def running(program, control="1", *arguments, stdin=None):
    """A program of its own that has printed a line, and is killed in the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPSCOPE_CONTROL": control},
    )
    try:
        assert process.stdout.readline().strip() == "ready"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
