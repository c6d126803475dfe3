"""What a launch can fill of a device."""

import numpy as np
import pytest

from opscope.analysis.kernel_occupancy import kernel_occupancy
from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.table import ListColumn

DEVICE = {
    "id": 0,
    "numSms": 4,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerMultiprocessor": 65536,
}


def kernel_trace(grid: int, block: int, registers: int, shared: int, **metadata: object) -> Trace:
    def sizes(x: int) -> ListColumn:
        return ListColumn(np.array([0, 3]), np.array([x, 1, 1]))

    gpu = {
        "kind": [0],
        "grid": sizes(grid),
        "block": sizes(block),
        "registers_per_thread": [registers],
        "shared_memory_bytes": [shared],
    }
    return Trace({"gpu": gpu}, Names.from_strings([]), metadata)


@pytest.mark.parametrize(
    ("grid", "block", "registers", "shared", "expected"),
    [
        (1000, 256, 32, 0, 1.0),  # eight blocks of eight warps fit
        (1000, 256, 64, 0, 0.5),  # registers for four blocks
        (1000, 256, 32, 32768, 0.25),  # shared memory for two
        (4, 256, 32, 0, 0.125),  # only one block each
        (1000, 16, 32, 0, 1.0),  # half a warp takes a whole one
    ],
)
def test_the_scarcest_resource_decides(
    grid: int, block: int, registers: int, shared: int, expected: float
) -> None:
    trace = kernel_trace(grid, block, registers, shared, deviceProperties=[DEVICE])

    occupancy = kernel_occupancy(trace)

    assert occupancy is not None
    assert occupancy.occupancy.tolist() == [pytest.approx(expected)]
    assert occupancy.blocks_per_sm.tolist() == [grid / 4]


@pytest.mark.parametrize(
    ("capability", "block", "registers", "shared", "expected"),
    [
        ((7, 0), 64, 85, 0, 20 / 64),  # each of four schedulers has registers for five warps
        ((7, 0), 128, 32, 16384, 16 / 64),  # shared memory for four blocks
        ((8, 0), 128, 32, 16384, 12 / 64),  # and for three, as each costs more since 8.0
        ((8, 0), 32, 32, 0, 32 / 64),  # at most 32 blocks
        ((8, 6), 32, 32, 0, 16 / 64),  # or 16
        ((8, 9), 32, 32, 0, 24 / 64),  # or 24
    ],
)
def test_what_devices_of_a_compute_capability_have(
    capability: tuple[int, int], block: int, registers: int, shared: int, expected: float
) -> None:
    device = {**DEVICE, "computeMajor": capability[0], "computeMinor": capability[1]}
    occupancy = kernel_occupancy(
        kernel_trace(1000, block, registers, shared, deviceProperties=[device])
    )
    assert occupancy is not None
    assert occupancy.occupancy.tolist() == [pytest.approx(expected)]


def test_nothing_is_said_of_unknown_devices() -> None:
    assert kernel_occupancy(kernel_trace(1, 32, 1, 0)) is None
