"""Where only the program's own functions are recorded, waiting is not their time."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

import opscope  # noqa: E402
from opscope.timeline.tree.line_nesting import own_times  # noqa: E402
from opscope.timeline.waits import waiting_ns  # noqa: E402


def busy(until):
    while not until.is_set():
        torch.ones(10).add_(1)


def joins():
    done = threading.Event()
    thread = threading.Thread(target=busy, args=(done,))
    thread.start()
    done.wait(0.2)  # nobody sets it
    done.set()
    thread.join()


def waits_for_a_process():
    subprocess.run([sys.executable, "-c", "import time; time.sleep(0.2)"], check=True)


@pytest.mark.parametrize("program", [joins, waits_for_a_process])
def test_what_a_program_waits_for_is_not_its_own_time(program):
    with opscope.profile(with_own_functions=True) as profile:
        program()
    trace = profile.trace
    names = [trace.event_name(event) for event in range(len(trace.events))]
    own = own_times(trace)[[program.__name__ in name for name in names]].sum()
    waited = waiting_ns(trace)
    main = trace.events["thread"][[program.__name__ in name for name in names]][0]
    on_main = waited[trace.events["thread"] == main].sum()
    assert on_main > 150_000_000
    assert own < on_main / 4


def test_importing_is_no_time_of_the_programs_own(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.2)\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def imports():
        import slow_to_import  # noqa: F401

    with opscope.profile(with_own_functions=True) as profile:
        imports()
    trace = profile.trace
    names = [trace.event_name(event) for event in range(len(trace.events))]
    own = own_times(trace)
    assert own[["imports" in name for name in names]].sum() < 50_000_000
    assert any("_find_and_load" in name for name in names)
