"""Run a library's part in one way, and read what came of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from field.environment import COUNTER, FOLDER, PYTHON, folder_of_tests
from field.libraries import Library
from field.outcome import Outcome, outcome_of

HERE = Path(__file__).parent
LIMIT_SECONDS, VIEWS_SECONDS = 600, 180
_RUN = ("-m", "opscope", "run")
MODES = {
    "default": _RUN,
    "everything": (*_RUN, "--shapes", "--memory", "--stack", "--modules", "--asyncio", "--flops"),
    "flight": (*_RUN, "--flight-recorder", "30s"),
    "children": (*_RUN, "--children"),
    "drop-in": ("-m", "opscope.drop_in"),
    "beside": _RUN,
}
"""What is before the program. `beside` leaves torch's profiler to itself."""
COMPLETE = ("default", "everything", "beside")
"""Modes whose trace has every operator of the process."""


def run(library: Library, mode: str | None) -> Outcome:
    """Run its part, recorded in a mode of :data:`MODES`; plain without one."""
    folder = FOLDER / "runs" / f"{library.name}-{mode or 'plain'}"
    shutil.rmtree(folder, ignore_errors=True)
    work = folder / "work"
    (work / "tmp").mkdir(parents=True)
    if library.tests:
        settings = folder / "pytest.ini"  # neither this project's nor its own
        settings.write_text("[pytest]\n")
        home = folder_of_tests(library)
        options = ["-q", "-p", "no:cacheprovider", f"--junitxml={folder / 'tests.xml'}"]
        options += ["-c", str(settings), f"--rootdir={home}"]
        program = ["-m", "pytest", *options, *library.tests.split()]
    else:
        program, home = [str(HERE / "programs" / f"with_{library.name}.py")], work
    under = MODES[mode] if mode else ()
    trace = ("-o", str(folder / "trace")) if under[:3] == _RUN else ()
    witness = [str(HERE / "witness.py"), str(COUNTER), str(folder / "seen.json")]
    begun = time.monotonic()
    with (folder / "output").open("wb") as output, (folder / "errors").open("wb") as errors:
        try:
            code = subprocess.run(
                [str(PYTHON), *under, *trace, *witness, *program],
                cwd=home,
                env={
                    **os.environ,
                    **_SAME_EVERY_TIME,
                    **dict(library.variables),
                    **({"OPSCOPE_DROP_IN": "0"} if mode == "beside" else {}),
                    "TMPDIR": str(work / "tmp"),
                },
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                timeout=LIMIT_SECONDS,
            ).returncode
        except subprocess.TimeoutExpired:
            code = 124
    seconds = time.monotonic() - begun
    recorded, disagree = _read(folder / "trace") if mode in COMPLETE else (None, [])
    outcome = outcome_of(code, folder, {work, home}, seconds, recorded)
    outcome.lists["views"] = Counter(disagree)
    return outcome


def _read(trace: Path) -> tuple[dict[str, int] | None, list[str]]:
    """Operators by name, and what views disagree about; by a process of its own."""
    try:
        said = subprocess.run(
            [sys.executable, str(HERE / "views.py"), str(trace)],
            capture_output=True,
            text=True,
            timeout=VIEWS_SECONDS,
        )
        found = json.loads(said.stdout)
        return found["operators"], found["disagree"]
    except (subprocess.TimeoutExpired, ValueError) as error:
        return None, [f"they could not be read: {error}"]


_SAME_EVERY_TIME = {
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "COLUMNS": "200",
    "OPSCOPE_END_WAIT": "120",
}
