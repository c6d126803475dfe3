"""Run a library's part in one way, and read what came of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from field.environment import FOLDER, PYTHON, folder_of_tests
from field.libraries import Library
from field.outcome import Outcome, outcome_of

PROGRAMS = Path(__file__).parent / "programs"
LIMIT_SECONDS = 300
MODES = {
    "default": (),
    "everything": ("--shapes", "--memory", "--stack", "--modules"),
    "why": ("--why",),
    "flight": ("--flight-recorder", "30s"),
    "beside": (),
}
"""Options of ``opscope run``. `beside` leaves torch's profiler to itself."""


def run(library: Library, mode: str | None) -> Outcome:
    """Run its part under ``opscope run``, or plain where there is no mode."""
    folder = FOLDER / "runs" / f"{library.name}-{mode or 'plain'}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tests = folder / "tests.xml"
    if library.tests:
        settings = folder / "pytest.ini"  # neither this project's nor its own
        settings.write_text("[pytest]\n")
        home = folder_of_tests(library)
        options = ["-q", "-p", "no:cacheprovider", f"--junitxml={tests}", "-c", str(settings)]
        program = ["-m", "pytest", *options, f"--rootdir={home}", *library.tests.split()]
    else:
        program, home = [str(PROGRAMS / f"with_{library.name}.py")], folder
    under = [] if mode is None else ["-m", "opscope", "run", *MODES[mode], "-o", str(folder / "o")]
    drop_in = {"OPSCOPE_DROP_IN": "0"} if mode == "beside" else {}
    with (folder / "output").open("wb") as output, (folder / "errors").open("wb") as errors:
        try:
            code = subprocess.run(
                [str(PYTHON), *under, *program],
                cwd=home,
                env={**os.environ, **_SAME_EVERY_TIME, **dict(library.variables), **drop_in},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                timeout=LIMIT_SECONDS,
            ).returncode
        except subprocess.TimeoutExpired:
            code = 124
    texts = [(folder / name).read_text(errors="replace") for name in ("output", "errors")]
    return outcome_of(code, *texts, tests)


_SAME_EVERY_TIME = {
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "COLUMNS": "200",
}
