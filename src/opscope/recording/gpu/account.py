"""What the recorder says of its own collecting of device activity: ledger and metadata."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.columns.codes import GpuKind
from opscope.columns.schema import UNHEARD
from opscope.recording.decoded import Decoded
from opscope.recording.gpu.collecting import devices
from opscope.recording.ledger import Recorded, Row


def gpu_ledger(recorded: Recorded) -> list[Row]:
    """Rows of the ledger: delivered, shown, and lost for which reason."""
    decoded = recorded.decoded
    if decoded.gpu_refused:
        return [("gpu", f"not recorded: {devices().library} cannot be used", 1.0)]
    if decoded.devices is None:
        return []
    counts, gpu = decoded.devices.account, decoded.tables["gpu"]
    lost = counts["dropped"] + counts["over_budget"]
    rows: list[Row] = [
        ("gpu", "requested", counts["recorded"] + lost),
        ("gpu", "recorded", counts["recorded"]),
        ("gpu", "dropped: memory budget", counts["over_budget"]),
        ("gpu", f"dropped: by {counts['library_name']}, no buffer free", counts["dropped"]),
        ("gpu", "buffers refused: memory budget", counts["refused_buffers"]),
        ("gpu", "unfinished", counts["unfinished"]),
        ("gpu", "of an unknown kind", counts["unknown"]),
        ("gpu", "left out: calls that tell nothing (cudaGetDevice)", counts["noise"]),
        ("gpu", "left out: launched outside the recording", counts["launched_outside"]),
        ("gpu", "left out: began after the recording, launch unknown", counts["begun_later"]),
        ("gpu", "work", int(np.count_nonzero(gpu["kind"] <= GpuKind.SET))),
        ("gpu", "work without its launch", counts["without_launch"]),
        ("gpu", "clock error_ns", counts["clock_error_ns"]),
    ]
    if counts["unheard_ns"]:
        rows.append(("gpu", UNHEARD, counts["unheard_ns"]))
    return rows + [("gpu", f"not available: {k}", 1) for k in counts["missing_kinds"]]


def gpu_metadata(decoded: Decoded) -> dict[str, Any]:
    """What was used to collect, or why nothing was, and the devices."""
    if decoded.gpu_refused:
        return {"gpu": {"unavailable": decoded.gpu_refused}}
    if decoded.devices is None:
        return {}
    source = decoded.devices.account
    about = {
        "library": source["library_path"],
        f"{source['library_name'].lower()}_version": source["library_version"],
        "clock": "recorder" if source["clock_is_ours"] else "converted",
    }
    properties = list(decoded.gpu_properties) or devices().properties()
    return {"gpu": about, **({"deviceProperties": properties} if properties else {})}
