"""Programs that run while they are asked, and the command that asks them."""

import contextlib
import os
import subprocess
import sys
import textwrap

import pytest

from support.torch_processes import TorchProgram


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """A folder for the sockets of a file of tests, which is the current one."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        patch.chdir(folder)
        yield folder


@contextlib.contextmanager
def running_torch(program, *arguments):
    """As ``running``, of a program that imports torch."""
    source = textwrap.dedent(program)
    process = TorchProgram("-c", source, *arguments, added={"OPSCOPE_CONTROL": "1"})
    with process:
        try:
            assert process.stdout.readline().strip() == "ready"
            yield process
        finally:
            process.kill()


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
