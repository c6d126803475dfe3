"""Run the tests on rows of the matrix: ``python -m matrix [ROW ...] [-- ARGUMENTS]``.

Without rows, on all. A row runs what torch has a part in, or, where it has no torch, what needs
none; with ``--closest`` those tests alone that build on torch's own objects; with ``--failed``
those alone that failed when the row ran last, whose result then names what has been mended since.
With arguments it runs what these say to pytest, and writes no result. Results are files in
``results``, and docs/versions.md.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from matrix.environment import HERE, RowUnavailable, make_environment
from matrix.results import RESULTS, read_outcomes, summary, with_mended, write_page
from matrix.rows import ROWS, parse_row

WITH_TORCH = (
    *("tests/integration", "tests/unit/recording", "tests/unit/torch_api", "tests/unit/replay"),
    *("tests/unit/launch", "tests/unit/columns/test_overloads.py", "tests/unit/export"),
)
WITHOUT_TORCH = ("tests/unit",)
# The recorder of Python calls, which has other code for other Pythons.
CALLS = (
    *(f"tests/unit/recording/test_{name}.py" for name in (
        *("python_calls", "python_functions", "own_functions", "python_windows"),
        *("python_module_calls", "asyncio_tasks", "asyncio_eager_tasks"),
        *("python_hooks", "free_threads", "gil"),
    )),
    *("tests/unit/test_lifecycle.py", "tests/unit/timeline/tree"),
)  # fmt: skip
# What builds on torch's own objects and C++, and so notices first what a version has changed.
CLOSEST = (
    *(f"tests/integration/test_drop_in_{name}.py" for name in (
        *("names", "install", "switches", "ranges", "legacy", "memory_profile", "threads"),
        *("compile", "interruptions"),
    )),
    *(f"tests/integration/test_{name}.py" for name in (
        *("anti_patterns", "profile_cycles"),
        *("recorder_spans", "recorder_tensors", "recorder_windows", "recorder_agreement"),
        *("memory_events", "memory_categories", "event_trees", "fast_annotations"),
        *("outermost_operators", "execution_trace_agreement", "execution_trace_observer"),
        *("compilations", "compiled_lines", "compiled_annotations", "chrome_parity"),
        *("gpu_recording", "gpu_filters", "script_calls", "process_groups"),
    )),
    *("tests/unit/torch_api/drop_in", "tests/unit/recording/bridge/test_bridge.py"),
    "tests/unit/replay",
    "tests/unit/torch_api/test_activity_configs.py",
    "tests/unit/torch_api/test_settings.py",
    "tests/unit/columns/test_overloads.py",
)  # fmt: skip
_OPTIONS = ("--closest", "--failed")
_GO_ON = "--continue-on-collection-errors"
_FACTS = """
import json, platform
try:
    import torch
    version = torch.__version__
except ImportError:
    version = ""
print(json.dumps({"torch": version, "python": platform.python_version()}))
"""


def main(arguments):
    split = arguments.index("--") if "--" in arguments else len(arguments)
    names, chosen = arguments[:split], arguments[split + 1 :]
    rows = [parse_row(name) for name in names if name not in _OPTIONS] or map(parse_row, ROWS)
    if "--failed" in names:
        codes = [run_failed(row) for row in rows]
    else:
        codes = [run_row(row, chosen, "--closest" in names) for row in rows]
    write_page()
    return max(codes)


def run_failed(row):
    """Runs again what failed when the row ran last; 0 if nothing has failed."""
    path = _path(row)
    kept = json.loads(path.read_text()) if path.exists() else {}
    if not kept.get("failed"):
        print(f"{row.name}: nothing failed there", flush=True)
        return 0
    try:
        python = make_environment(row)
    except RowUnavailable as problem:  # what is known of it stays
        print(f"{row.name}: {problem}", flush=True)
        return 1
    code, outcomes = _run(python, list(kept["failed"]))
    path.write_text(json.dumps(with_mended(kept, outcomes), indent=1) + "\n")
    return code


def run_row(row, chosen, closest=False):
    """0 if no test failed, or the row cannot be had here."""
    print(f"== {row.name}", flush=True)
    try:
        python = make_environment(row)
    except RowUnavailable as problem:
        print(f"{row.name}: {problem}", flush=True)
        _write(row, {"unavailable": str(problem)})
        return 0
    code, outcomes = _run(python, chosen or list(_tests_of(row, closest)))
    asked = subprocess.run([str(python), "-c", _FACTS], capture_output=True, text=True, check=True)
    found = summary(outcomes)
    if not outcomes:
        print(f"{row.name}: no test ran", flush=True)
        return code or 1
    print(f"{row.name}: {found['passed']} passed, {len(found['failed'])} failed", flush=True)
    if not chosen:
        _write(row, {**json.loads(asked.stdout), "closest": closest, **found})
    return code


def _run(python, tests):
    """The exit code, and how each test ended."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [str(python), "tests/run.py", "-q", "-p", "no:cacheprovider", _GO_ON, *tests],
            cwd=HERE,
            env={
                **os.environ,
                "OPSCOPE_MATRIX_OUTCOMES": folder,
                "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
            },
        )
        return done.returncode, read_outcomes(Path(folder))


def _tests_of(row, closest):
    if row.torch:
        return CLOSEST if closest else WITH_TORCH
    return CALLS if closest else WITHOUT_TORCH


def _write(row, result):
    RESULTS.mkdir(exist_ok=True)
    _path(row).write_text(json.dumps({"row": row.name, **result}, indent=1) + "\n")


def _path(row):
    return RESULTS / f"{row.name}.json"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
