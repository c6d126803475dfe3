"""Threads are called what the program calls them."""

from __future__ import annotations

import concurrent.futures
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import opscope
from opscope.api.trace import Trace
from opscope.recording.listeners import ThreadNames
from support.torch_processes import run_torch


def work() -> None:
    torch.ones(3) + 1


def named(trace: Trace) -> list[str]:
    return [trace.names[row] for row in trace.table("threads")["name"].tolist()]


def run_in_thread(name: str, function: Any = work) -> int:
    """Its number in the system."""
    thread = threading.Thread(target=function, name=name)
    thread.start()
    thread.join()
    return thread.native_id or 0


@pytest.mark.parametrize("option", ["with_stack", "with_functions", "with_own_functions"])
def test_one_that_came_and_went_is_known_where_python_calls_are_recorded(option: str) -> None:
    with opscope.profile(**{option: True}) as prof:
        run_in_thread("came and went")
    assert "came and went" in named(prof.trace)
    main = prof.trace.table("threads")["system_thread_id"].tolist().index(os.getpid())
    assert named(prof.trace)[main] not in ("MainThread", "came and went")


def test_those_that_are_there_when_the_window_opens_or_closes(tmp_path: Path) -> None:
    with (
        concurrent.futures.ThreadPoolExecutor(1, "early") as early,
        concurrent.futures.ThreadPoolExecutor(1, "late") as late,
    ):
        early.submit(work).result()
        with opscope.profile() as prof:
            early.submit(work).result()
            late.submit(work).result()
    assert {"early_0", "late_0"} <= set(named(prof.trace))
    prof.trace.save(tmp_path / "saved")
    assert {"early_0", "late_0"} <= set(named(opscope.load(tmp_path / "saved")))
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    shown = {row["args"]["name"] for row in rows if row["name"] == "thread_name"}
    assert any("early_0" in name for name in shown)


@pytest.mark.parametrize("name", ["", "ünïcode ⚙", "x" * 300, "line\nbreak", "lone \udcff"])
def test_any_name(name: str) -> None:
    with opscope.profile(with_stack=True) as prof:
        number = run_in_thread(name)
    row = prof.trace.table("threads")["system_thread_id"].tolist().index(number)
    if name and "\udcff" not in name:  # else Python makes one up, or it is no text
        assert named(prof.trace)[row] == name


def test_a_thread_that_makes_up_its_name_runs_no_code_of_the_program_while_it_is_asked() -> None:
    asked: list[str] = []

    class Odd(threading.Thread):
        @property
        def _name(self) -> str:
            asked.append("asked")
            return "odd"

        @_name.setter
        def _name(self, name: str) -> None:
            pass

    with opscope.profile(with_functions=True) as prof:
        thread = Odd(target=work)
        before = len(asked)
        thread.start()
        thread.join()
        by_the_program = len(asked) - before
    assert by_the_program <= 8, "starting a thread asks for it; every function recorded does not"
    assert thread.native_id in prof.trace.table("threads")["system_thread_id"]


def test_no_lock_is_waited_for_while_another_has_it() -> None:
    code = """
import threading, torch, opscope
threading._active_limbo_lock.acquire()
with opscope.profile(with_functions=True) as prof:
    torch.ones(3)
threading._active_limbo_lock.release()
print(len(prof.trace.events) > 0)
"""
    done = run_torch("-c", code)
    assert done.stdout == "True\n", done.stderr


def test_a_forked_child_has_its_own() -> None:
    run_in_thread("warm up")
    with opscope.profile():
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with opscope.profile(with_functions=True) as prof:
                    run_in_thread("of the child")
                status = int("of the child" not in named(prof.trace))
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0


def test_what_one_process_knows_another_learns() -> None:
    here, there = ThreadNames(), ThreadNames()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait, name="known")
    thread.start()
    here.begin()
    stop.set()
    thread.join()
    there.learn(json.loads(json.dumps(here.known())))
    assert there.known() == here.known() == {str(thread.native_id): "known", **here.known()}
