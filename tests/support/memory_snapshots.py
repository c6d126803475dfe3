"""Memory snapshots as torch writes them, made up, and what is known of their memory."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

KINDS = (
    "plain", "begins in the middle", "frees alone", "several devices", "expandable", "no stacks",
    "older", "protocol 5", "protocol 2", "fails",
)  # fmt: skip


def frame(file: str, line: int, name: str) -> dict[str, Any]:
    return {"filename": file, "line": line, "name": name}


def made_snapshot(kind: str, seed: int, events: int = 300) -> tuple[dict[str, Any], int]:
    """One of a kind, and the protocol that it is to be written with."""
    draw = random.Random(f"{kind}{seed}")
    count = 3 if kind == "several devices" else 1
    stacks = [
        [
            frame("??", 0, f"at::op{number}"),
            frame("/lib/python3.11/site-packages/torch/nn.py", 10, "forward"),
            frame("/home/train.py", number + 1, "step"),
            frame("/home/train.py", 99, "<module>"),
        ]
        for number in range(5)
    ]
    if kind == "no stacks":
        stacks = [[]]
    devices = [_device(draw, kind, index, stacks, events) for index in range(count)]
    snapshot = {
        "segments": [segment for _, segments in devices for segment in segments],
        "device_traces": [*([trace for trace, _ in devices]), []],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "roundup": 1.5, "on": True},
        "external_annotations": [],
    }
    return snapshot, {"protocol 5": 5, "protocol 2": 2}.get(kind, 4)


def _device(
    draw: random.Random, kind: str, index: int, stacks: list[Any], events: int
) -> tuple[list[Any], list[Any]]:
    base = 0x7F00_0000_0000 + (index << 36)
    where = [base + (row << 21) for row in range(40)]
    if kind == "expandable":
        where = [2**64 - (row + 1 << 21) for row in range(40)]
    alive: dict[int, tuple[int, Any]] = {}
    trace: list[dict[str, Any]] = []

    def write(action: str, address: int, size: int, stack: Any) -> None:
        entry = {"action": action, "addr": address, "size": size, "stream": 0}
        entry["time_us"] = 1_700_000_000_000_000 + len(trace) * 7
        trace.append(entry | ({} if stack is None else {"frames": stack}))

    for _ in range(events):
        free = [one for one in where if one not in alive]
        if free and (not alive or draw.random() < 0.55):
            address, size, stack = (
                draw.choice(free),
                draw.randrange(0, 1 << 20),
                draw.choice(stacks),
            )
            if draw.random() < 0.1:
                write("segment_alloc", address, 2 << 20, stack)
            alive[address] = size, stack
            write("alloc", address, size, stack)
        else:
            address = draw.choice(list(alive))
            size, stack = alive.pop(address)
            write("free_requested", address, size, stack)
            write("free_completed", address, size, draw.choice(stacks))
        if kind == "fails" and draw.random() < 0.02:
            write("oom", 0, 1 << 40, draw.choice(stacks))
    if kind in ("begins in the middle", "several devices"):
        trace = trace[len(trace) // 3 :]
    if kind == "frees alone":
        trace = [one for one in trace if one["action"] != "alloc"]
    segments = []
    for address in where:
        size, stack = alive.get(address, (0, None))
        blocks = [{"size": 2 << 20, "state": "inactive"}]
        if address in alive:
            rounded = max(-(-size // 512) * 512, 512)
            blocks = [
                {"size": rounded, "requested_size": size, "state": "active_allocated",
                 "frames": stack, "address": address},
                {"size": (2 << 20) - rounded, "state": "inactive", "address": address + rounded},
            ]  # fmt: skip
        if kind == "older":
            for block in blocks:
                block.pop("address", None)
        segments.append({"device": index, "address": address, "total_size": 2 << 20,
                         "segment_pool_id": (0, 0), "blocks": blocks})  # fmt: skip
    return trace, segments


def write_snapshot(path: Path, snapshot: dict[str, Any], protocol: int) -> None:
    with path.open("wb") as file:
        pickle.dump(snapshot, file, protocol)


def known_memory(kind: str, seed: int, index: int = 0) -> dict[str, Any]:
    """Peak, CRC-32 of the timeline, and lines of a device, which a plain computation gave."""
    known = json.loads(Path(__file__).with_suffix(".json").read_text())
    return known[f"{kind} {seed} {index}"]  # type: ignore[no-any-return]
