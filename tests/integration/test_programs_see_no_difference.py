"""What a program can see of its process: under ``opscope run`` what it sees under ``python``."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

OPSCOPE = str(Path(sys.executable).with_name("opscope"))

LOOK = """
import sys
modules = sorted(name for name in sys.modules if name.partition(".")[0] != "opscope")
argv, path = list(sys.argv), list(sys.path)
flags, warn_options = str(sys.flags), list(sys.warnoptions)
streams = [type(s).__name__ + repr((s.name, s.encoding, s.errors, s.line_buffering, s.mode))
           for s in (sys.stdin, sys.stdout, sys.stderr)]
hooks = [f.__module__ + "." + f.__qualname__ for f in
         (sys.excepthook, sys.displayhook, sys.breakpointhook, sys.unraisablehook)]
importers = [getattr(f, "__name__", type(f).__name__) for f in sys.meta_path]
early = {"sys.monitoring": [sys.monitoring.get_tool(i) for i in range(6)]
         if hasattr(sys, "monitoring") else [],
         "trace": sys.gettrace(), "profile": sys.getprofile(),
         "recursion": sys.getrecursionlimit(), "switch": sys.getswitchinterval(),
         "last": [hasattr(sys, n) for n in ("last_value", "last_traceback", "ps1", "exc_info_")]}
import gc, os
early["gc"] = [gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.callbacks)]
early["files"] = sorted(n for n in map(int, os.listdir("/proc/self/fd")) if n < 1000)
early["umask"] = os.umask(0o22), os.umask(0o22)
early["environ"] = {k: v for k, v in sorted(os.environ.items()) if k != "_"}
early["cwd"], early["niceness"] = os.getcwd(), os.nice(0)
early["threads_of_system"] = len(os.listdir("/proc/self/task"))
import locale, resource, signal, threading, logging, warnings, decimal
early["locale"] = locale.setlocale(locale.LC_ALL), locale.getpreferredencoding()
early["limits"] = [resource.getrlimit(getattr(resource, n)) for n in sorted(dir(resource))
                   if n.startswith("RLIMIT_")]
early["signals"] = {n.name: getattr(signal.getsignal(n), "__qualname__", str(signal.getsignal(n)))
                    for n in signal.valid_signals() if isinstance(n, signal.Signals)}
early["masked"] = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))
early["timers"] = [signal.getitimer(i) for i in range(3)]
early["threads"] = [t.name for t in threading.enumerate()]
early["thread_hook"] = threading.excepthook.__qualname__
early["logging"] = [logging.getLogger().level, len(logging.getLogger().handlers),
                    sorted(logging.Logger.manager.loggerDict)]
early["filters"] = [str(f) for f in warnings.filters]
early["showwarning"] = warnings.showwarning.__qualname__
early["decimal"] = str(decimal.getcontext())
main = sys.modules["__main__"]
early["main"] = sorted(k for k in vars(main) if k.startswith("__")), main.__name__, main.__file__
children = os.popen(f"{sys.executable} -c 'import sys, os; print(sorted(sys.modules), sys.path)'")
early["child"] = children.read()
children.close()
import json
with open(sys.argv[1], "w") as file:
    json.dump({"modules": modules, "argv": argv, "path": path, "flags": flags, "streams": streams,
           "warn_options": warn_options, "hooks": hooks, "importers": importers, **early},
          file, default=str)
import torch
torch.ones(3).add(1)
print("out")
print("err", file=sys.stderr)
sys.exit(7)
"""

KNOWN = {
    "modules": "Cython keeps its types in modules that C code has made, which no file shadows",
    "importers": "finders of opscope's: some wait for parts of torch, one gives modules back",
    "signals": "signals that end a process have the recording written first; the program's own "
    "handlers take their place",
    "logging": "concurrent.futures has loggers from when it is imported",
    "threads_of_system": "those of NumPy's BLAS, which it starts when it is imported",
}
"""What differs, and why; everything else is equal."""

MODES = {
    "everything": ["--memory", "--stack", "--shapes"],
    "flight recorder": ["--flight-recorder", "10s"],
}


def ran(tmp_path, command, name):
    found = tmp_path / f"{name}.json"
    environment = {**os.environ, "PYTHONWARNINGS": "default"}
    environment.pop("PYTEST_CURRENT_TEST", None)
    done = subprocess.run(
        [*command, str(tmp_path / "look.py"), str(found)], cwd=tmp_path, capture_output=True,
        text=True, timeout=120, check=False, env=environment,
    )  # fmt: skip
    seen = json.loads(found.read_text())
    seen["argv"] = [word.replace(name, "FOUND") for word in seen["argv"]]
    return done, seen


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Its folder, and what it sees of itself under ``python``."""
    folder = tmp_path_factory.mktemp("look")
    (folder / "look.py").write_text(LOOK)
    return folder, *ran(folder, [sys.executable], "plain")


@pytest.mark.parametrize("mode", MODES)
def test_a_program_sees_the_same(alone, mode):
    tmp_path, plain, expected = alone
    ours, seen = ran(tmp_path, [OPSCOPE, "run", "-o", str(tmp_path / "t"), *MODES[mode]], "ours")
    differing = {name: (expected[name], seen[name]) for name in expected
                 if seen[name] != expected[name] and name not in KNOWN}  # fmt: skip
    assert differing == {}
    more = set(seen["modules"]) - set(expected["modules"])
    assert all("cython" in name for name in more) and set(expected["modules"]) <= set(
        seen["modules"]
    )
    assert seen["importers"][-3:] == expected["importers"][-3:]
    assert len(seen["importers"]) <= len(expected["importers"]) + 4
    changed = {n for n, what in expected["signals"].items() if seen["signals"][n] != what}
    assert changed <= {"SIGTERM", "SIGHUP", "SIGXCPU", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGVTALRM",
                       "SIGPROF", "SIGQUIT", "SIGIO", "SIGPWR"}  # fmt: skip
    assert (ours.returncode, ours.stdout) == (plain.returncode, plain.stdout) == (7, "out\n")
    lines = [line for line in ours.stderr.splitlines() if line.startswith(("err", "Traceback"))]
    assert plain.stderr == "err\n" and lines == ["err"] and "Warning" not in ours.stderr


OWN = """
import torch
torch.ones(3).add(1)
import calendar, csv, duckdb, html, pyarrow, rich, statistics
print([m.mine for m in (calendar, csv, duckdb, html, pyarrow, rich, statistics)])
import json, numpy, pickle, collections
assert pickle.loads(pickle.dumps(collections.Counter("aab")))["a"] == 2
assert json.__spec__.loader is json.__loader__ and numpy.linalg.norm(numpy.ones(4)) == 2
assert torch.ones(2).numpy().sum() == 2
"""


def test_a_program_finds_its_own_modules_and_the_trace_is_written_all_the_same(tmp_path):
    for name in ("calendar", "csv", "duckdb", "html", "pyarrow", "rich", "statistics"):
        (tmp_path / f"{name}.py").write_text(f"mine = {name!r}\n")
    (tmp_path / "main.py").write_text(OWN)
    ours = subprocess.run(
        [OPSCOPE, "run", "-o", tmp_path / "t", "main.py"], cwd=tmp_path,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    names = "['calendar', 'csv', 'duckdb', 'html', 'pyarrow', 'rich', 'statistics']\n"
    assert (ours.returncode, ours.stdout) == (0, names), ours.stderr
    assert "could not be" not in ours.stderr
    assert list((tmp_path / "t").rglob("manifest*.json"))


def test_own_modules_that_are_imported_before_torch_do_not_end_the_recording(tmp_path):
    for name in ("html", "statistics"):
        (tmp_path / f"{name}.py").write_text(f"mine = {name!r}\n")
    program = "import html, statistics\nimport torch\ntorch.ones(3).add(1)\n"
    (tmp_path / "main.py").write_text(f"{program}import html\nprint(html.mine, statistics.mine)\n")
    ours = subprocess.run([OPSCOPE, "run", "-o", "t", "main.py"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=120)  # fmt: skip
    assert (ours.returncode, ours.stdout) == (0, "html statistics\n"), ours.stderr
    assert "without being recorded" not in ours.stderr
    assert list((tmp_path / "t").rglob("manifest*.json"))


def test_pytest_has_no_warning_more(tmp_path):
    (tmp_path / "test_a.py").write_text("import torch\ndef test_a(): assert torch.ones(3).sum()\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ours = subprocess.run([OPSCOPE, "run", "-o", "t", *words], cwd=tmp_path, capture_output=True,
                          text=True, timeout=120)  # fmt: skip
    assert ours.returncode == 0, ours.stdout + ours.stderr
    assert "1 passed in" in ours.stdout and "arning" not in ours.stdout + ours.stderr
