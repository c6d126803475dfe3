"""Processes that tests run to their end, with what these wrote."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any


def run_python(
    *arguments: object, added: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """This Python with ``arguments``.

    Args:
        *arguments: of any type, each taken as text.
        added: to the environment.
        **options: as ``subprocess.run`` has them.
    """
    given = {"capture_output": True, "text": True, "timeout": 300, "check": False, **options}
    if added:
        given["env"] = {**os.environ, **added}
    return subprocess.run([sys.executable, *map(str, arguments)], **given)


def run_opscope(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """``python -m opscope`` with ``arguments``; ``options`` are those of :func:`run_python`."""
    return run_python("-m", "opscope", *arguments, **options)


def opscope_here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """``run_opscope`` in this process, which saves the time that importing everything takes."""
    from opscope.cli import main

    code, said, messages = 0, io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(messages):
        try:
            main([str(one) for one in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(arguments, code, said.getvalue(), messages.getvalue())


def output_of(source: str, timeout_s: float = 120, **environment: str) -> str:
    """Standard output of this Python running ``source``; its failure is the test's."""
    done = run_python("-c", source, timeout=timeout_s, added=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def wait_until(is_so: Callable[[], object], patience_s: float = 60) -> None:
    """Look again and again; that it does not become so is the test's failure."""
    until = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < until, f"not within {patience_s} s"
        time.sleep(0.01)
