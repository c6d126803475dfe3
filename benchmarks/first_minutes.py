"""What a user waits for at first: imports, help, `opscope run`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

from benchmarks.figures import Figure
from benchmarks.rounds import Rounds


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Seconds of whole processes."""
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "program.py")
        with open(script, "w") as file:
            file.write("import torch\n")
        run = ("-m", "opscope", "run", "--output", os.path.join(folder, "trace"), script)
        numpy = ("-c", "import numpy")
        for name, ours, theirs, limit in (
            ("import numpy, opscope", ("-c", "import numpy, opscope"), numpy, 0.1),
            ("opscope --help", ("-m", "opscope", "--help"), ("-c", "pass"), 0.3),
            ("opscope run of `import torch`", run, (script,), 0.3),
        ):
            took = rounds.interleave(name, (ours, theirs), _process)
            added = [a - b for a, b in zip(took[ours], took[theirs], strict=True)]
            alone = "python alone" if theirs == (script,) else f"python {theirs[0]} alone"
            title = f"{name}, added"
            yield Figure(title, "a process", "s", added, took[theirs], alone, limit=limit)


def _process(words: tuple[str, ...]) -> float:
    # Installers compile bytecode; without it, each import would compile.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=environment)
    return time.perf_counter() - began
