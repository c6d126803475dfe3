"""A task that computes for long between two awaits is found, at its line, and is the verdict."""

import asyncio
import time

import torch

import opscope
from opscope.findings.status import Status

NETWORK = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)])


async def light():
    for _ in range(40):
        torch.ones(3).add(1)
        await asyncio.sleep(0.001)


async def heavy(pause):
    for _ in range(6):
        with torch.inference_mode():
            for _ in range(12):
                NETWORK(torch.randn(512, 512))
                if pause:
                    await asyncio.sleep(0)
        await asyncio.sleep(0.001)


async def sleeping():
    for _ in range(8):
        torch.ones(3).add(1)
        time.sleep(0.03)  # which asyncio.sleep() should be
        await asyncio.sleep(0.001)


def recorded(work, **options):
    async def main():
        await asyncio.gather(light(), work)

    everything = {"with_stack": True, "record_shapes": True, "profile_memory": True}
    with opscope.profile(with_asyncio=True, **(options or everything)) as profile:
        asyncio.run(main())
    return profile.trace


def test_a_task_that_computes_between_awaits_blocks_the_others():
    trace = recorded(heavy(pause=False))
    found = trace.findings()["event-loop-blocked"]
    assert found.occurrences == 6 and found.saved_ns is None
    assert found.places[0].function == "heavy" and found.places[0].file == __file__
    verdict = trace.verdict()
    assert verdict.status in (Status.EVENT_LOOP, *_SLOWER)
    # Nothing grows where a network is made before it is used.
    assert "memory-that-grows" not in {one.id for one in trace.findings()}


_SLOWER = (Status.PYTHON, Status.SMALL_OPERATORS, Status.OPERATORS)
"""What saves more than 5 % of the time comes first."""


def test_a_task_that_sleeps_blocks_the_others_and_is_no_python_code_to_make_faster():
    verdict = recorded(sleeping(), with_own_functions=True).verdict()
    assert verdict.status is Status.EVENT_LOOP
    assert verdict.place.function == "sleeping"
    assert (
        "time.sleep(0.03)" in verdict.line or verdict.place.line > sleeping.__code__.co_firstlineno
    )


def test_one_task_alone_keeps_nobody_waiting():
    async def alone():
        for _ in range(12):
            NETWORK(torch.randn(512, 512))

    with opscope.profile(with_asyncio=True) as profile:
        asyncio.run(alone())
    assert "event-loop-blocked" not in {one.id for one in profile.trace.findings()}
