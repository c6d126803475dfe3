"""Counting the program's steps, and who hears of which."""

import os
import sys
import threading

import pytest

from opscope.torch_api.steps import StepClock


class Optimizer:
    pass


def heard_by(steps, **alarm):
    """What a listener hears of, by the number of the step."""
    heard = []
    made = steps.counter.alarm(lambda took_ns: heard.append((steps.counter.count, took_ns > 0)))
    for name, value in alarm.items():
        setattr(made, name, value)
    return heard


def test_the_last_200_are_remembered_oldest_first():
    steps = StepClock()
    for _ in range(350):
        steps.announced()
    assert steps.counter.count == 350 and len(steps.counter.durations_ns) == 200
    before = steps.counter.durations_ns
    steps.announced()
    assert steps.counter.durations_ns[:-1] == before[1:]


def test_steps_of_the_first_optimizer_count_until_one_is_announced():
    steps = StepClock()
    first, second = Optimizer(), Optimizer()
    for optimizer in (first, second, first):
        steps.optimizer_stepped(optimizer, (), {})
    assert steps.counter.count == 2
    steps.announced()
    steps.optimizer_stepped(first, (), {})
    assert steps.counter.count == 3
    steps.announced()
    assert (
        len(steps.counter.durations_ns) == 2
    )  # the announced one that came first began nobody knows when


def test_what_a_step_waited_is_known_where_the_kernel_counts_it():
    steps = StepClock()
    steps.announced()
    assert steps.counter.waited_ns is None
    steps.counter.alarm(lambda _: None)
    for _ in range(3):
        threading.Event().wait(0.03)
        steps.announced()
    assert (steps.counter.waited_ns is not None) == os.path.exists("/proc/self/schedstat")
    assert all(
        own <= all_of_it
        for own, all_of_it in zip(
            steps.counter.own_durations_ns, steps.counter.durations_ns, strict=True
        )
    )


def test_what_another_thread_waited_is_not_taken_for_the_step_s():
    steps = StepClock()
    steps.counter.alarm(lambda _: None)
    steps.announced()
    threading.Event().wait(0.01)
    thread = threading.Thread(target=steps.announced)
    thread.start()
    thread.join()
    assert steps.counter.waited_ns is None


def test_what_a_listener_raises_does_not_reach_the_program(monkeypatch):
    raised = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: raised.append(one.exc_value))
    steps = StepClock()
    steps.counter.alarm(lambda _: 1 / 0).at = 0
    heard = heard_by(steps, at=0)
    steps.announced()
    steps.announced()
    assert [number for number, _ in heard] == [1, 2]
    assert len(raised) == 1 and isinstance(raised[0], ZeroDivisionError)  # not at every step


def test_an_interrupt_while_one_listens_reaches_the_program():
    def interrupt(_):
        raise KeyboardInterrupt

    steps = StepClock()
    steps.counter.alarm(interrupt).at = 0
    with pytest.raises(KeyboardInterrupt):
        steps.announced()
    assert steps.counter.count == 1


def test_from_several_threads_all_are_counted():
    steps = StepClock()
    heard = heard_by(steps, at=0)
    threads = [
        threading.Thread(target=lambda: [steps.announced() for _ in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert steps.counter.count == len(heard) == 2_000
