"""What a launch can fill of a device."""

import pytest

from opscope.analysis.kernel_occupancy import kernel_occupancy
from support.build_trace import build_trace, kernel

DEVICE = {
    "id": 0,
    "numSms": 4,
    "maxThreadsPerMultiprocessor": 2048,
    "regsPerMultiprocessor": 65536,
    "sharedMemPerMultiprocessor": 65536,
}


@pytest.mark.parametrize(
    ("capability", "grid", "block", "registers", "shared", "expected"),
    [
        (None, 1000, 256, 32, 0, 1.0),  # eight blocks of eight warps fit
        (None, 1000, 256, 64, 0, 0.5),  # registers for four blocks
        (None, 1000, 256, 32, 32768, 0.25),  # shared memory for two
        (None, 4, 256, 32, 0, 0.125),  # only one block each
        (None, 1000, 16, 32, 0, 1.0),  # half a warp takes a whole one
        ((7, 0), 1000, 64, 85, 0, 20 / 64),  # each of four schedulers has registers for five warps
        ((7, 0), 1000, 128, 32, 16384, 16 / 64),  # shared memory for four blocks
        ((8, 0), 1000, 128, 32, 16384, 12 / 64),  # and for three, as each costs more since 8.0
        ((8, 0), 1000, 32, 32, 0, 32 / 64),  # at most 32 blocks
        ((8, 6), 1000, 32, 32, 0, 16 / 64),  # or 16
        ((8, 9), 1000, 32, 32, 0, 24 / 64),  # or 24
    ],
)
def test_the_scarcest_resource_decides(capability, grid, block, registers, shared, expected):
    known = dict(zip(("computeMajor", "computeMinor"), capability or (), strict=False))
    device = {**DEVICE, **known}
    sizes = {"registers_per_thread": registers, "shared_memory_bytes": shared}
    gpu = [kernel("k", 0, 1, grid=[grid, 1, 1], block=[block, 1, 1], **sizes)]
    trace = build_trace([], gpu=gpu, metadata={"deviceProperties": [device]})
    occupancy = kernel_occupancy(trace)
    assert occupancy.occupancy.tolist() == [pytest.approx(expected)]
    assert occupancy.blocks_per_sm.tolist() == [grid / 4]


def test_nothing_is_reported_of_unknown_devices():
    assert kernel_occupancy(build_trace([], gpu=[kernel("k", 0, 1, grid=[1, 1, 1])])) is None
