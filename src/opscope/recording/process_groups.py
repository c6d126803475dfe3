"""Which process group is which: what the arguments of collectives hold is an address only."""

from __future__ import annotations

import functools
import sys
from typing import Any

from opscope import _native
from opscope.recording.decoded import Decoded, read_decoded
from opscope.trace.codes import Want


def read_process_groups() -> dict[str, dict[str, Any]]:
    """The process groups there are now, by the address that recorded arguments show.

    Each has ``pg_name``, ``pg_desc`` and ``ranks`` (global ones). Empty without torch.distributed.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return {}
    groups = list(distributed.distributed_c10d._world.pg_map)
    addresses = _addresses(groups)
    return {
        address: {
            "pg_name": str(group.group_name),
            "pg_desc": str(getattr(group, "group_desc", "")),
            "ranks": list(distributed.get_process_group_ranks(group)),
        }
        for address, group in zip(addresses, groups, strict=False)
    }


def _addresses(groups: list[Any]) -> list[str]:
    """Pass each group to a span as an argument, and see what is recorded of it."""
    import torch

    wants = int(Want.ANNOTATIONS | Want.INPUTS)
    window = _native.reserve_window()

    def record() -> Decoded:
        for group in groups:
            if hasattr(group, "boxed"):
                torch.autograd._record_function_with_args_enter("process group", group.boxed())
        _native.close_window(window)
        return read_decoded(_native.decode(window, []))

    decoded = _native.Held(
        functools.partial(_native.open_window, wants, False, window),
        functools.partial(_native.discard_window, window),
    ).run(record)
    values = [decoded.names[value] for value in decoded.tables["scalars"]["value"]]
    return [value.partition(" ")[2] for value in values]
