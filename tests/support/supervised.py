"""A process that runs tests, ended where a test hangs and replaced by one that does the rest."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil

FAILED = 1
"""What pytest ends with when some tests failed."""

HUNG = "it hung"
"""Why a test that was ended has failed."""

LAST_WORDS_SECONDS = 10
"""How long a process may take to say what its threads were doing."""


class Supervised:
    """One of several processes that share out the tests of a folder of marks (``taken_files``).

    Parameters
    ----------
    command : what runs pytest.
    within : the folder to run it in.
    folder : where its plugin notes what it does.
    output : the file that takes what it writes; None for this process's own streams.
    limit_seconds : how long one test may take.
    starting_seconds : how long it may take to come to its first test.
    """

    def __init__(self, command, within, folder, output, limit_seconds, starting_seconds=300):
        self.command, self.within = command, within
        self.folder, self.output = folder, output
        self.limit_seconds, self.starting_seconds = limit_seconds, starting_seconds
        self.code = 0
        self._process = self._start()
        self._started = time.time()

    def _start(self):
        environment = {**os.environ, "OPSCOPE_TESTS_TAKEN": str(self.folder)}
        with contextlib.ExitStack() as stack:
            streams = {}
            if self.output is not None:
                file = stack.enter_context(self.output.open("a"))
                streams = {"stdout": file, "stderr": subprocess.STDOUT}
            return subprocess.Popen(self.command, cwd=self.within, env=environment, **streams)

    def continues(self) -> bool:
        """Whether it has anything left to do; whatever has to be done about it is done."""
        if self._process is None:
            return False
        if (code := self._process.poll()) is not None:
            self.code = max(self.code, abs(code))
            self._process = None
            return False
        if (hung := self._too_long()) is not None:
            self._end_hung(hung)
        return self._process is not None

    def end(self) -> None:
        """End it now, with all that it started."""
        if self._process is not None:
            self._kill(self._descendants())
            self._process = None

    def _too_long(self):
        """The test that it is at, and the mark of its file, if it has been there for too long.

        Both are empty where it has not come to any test.
        """
        try:
            doing = self.folder / f"doing-{self._process.pid}"
            since = doing.stat().st_mtime
            at, limit_seconds = doing.read_text().splitlines(), self.limit_seconds
        except FileNotFoundError:
            since, at, limit_seconds = self._started, ("", ""), self.starting_seconds
        return at if time.time() - since > limit_seconds else None

    def _end_hung(self, at):
        test, mark = at
        started = self._descendants()  # as long as it is there to be asked
        self._process.send_signal(
            signal.SIGABRT
        )  # pytest's faulthandler says where every thread is
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LAST_WORDS_SECONDS)
        self._kill(started)
        limit_seconds = self.limit_seconds if test else self.starting_seconds
        self._say(f"\n== ended after {limit_seconds} s, as it hung: {test or 'before any test'}\n")
        if (why := self.folder / f"why-{self._process.pid}").exists():
            self._say(f"== what failed before that\n{why.read_text()}")
        self.code = max(self.code, FAILED)
        if not test:  # so would the next one
            self._process = None
            return
        for kind, line in (("failed", f"{test}\t{HUNG}"), ("done", test)):
            with (self.folder / f"{kind}-{self._process.pid}").open("a") as file:
                file.write(f"{line}\n")
        if outcomes := os.environ.get("OPSCOPE_MATRIX_OUTCOMES"):  # what it would have told itself
            line = json.dumps({"test": test, "outcome": "failed", "reason": HUNG})
            Path(outcomes, f"hung-{self._process.pid}.jsonl").write_text(f"{line}\n")
        (self.folder / mark).unlink()
        self._process, self._started = self._start(), time.time()

    def _say(self, text):
        if self.output is None:
            print(text, flush=True)
        else:
            with self.output.open("a") as file:
                file.write(text)

    def _descendants(self):
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []

    def _kill(self, started):
        self._process.kill()
        self._process.wait()
        for process in started:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(started, timeout=LAST_WORDS_SECONDS)
