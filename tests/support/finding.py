"""Findings for tests of what shows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.findings.finding import Finding, Findings


def hold_order(findings: Findings) -> None:
    """Those that save more come first, those of unknown saving last; none saves more than all."""
    known = [one.saved_share is not None or one.saved_bytes is not None for one in findings]
    assert known == sorted(known, reverse=True)
    assert [one.weight for one in findings] == sorted((f.weight for f in findings), reverse=True)
    saved = [one.saved_ns for one in findings if one.saved_ns and not one.saved_bytes]
    assert saved == sorted(saved, reverse=True)
    assert all(one <= findings.wall_ns for one in saved)


def finding(**columns: Any) -> Findings:
    """One finding, of what is given and of nothing special."""
    given = {
        "id": "one", "title": "", "explanation": "", "advice": "", "occurrences": 2,
        "events": np.array([3, 10]), "time_ns": 60_000, "time_share": 0.2, "saved_ns": 40_000,
        "saved_share": 0.12, "saved_by": "", "measured": False, "places": (), "place_note": "",
        "link": "", **columns,
    }  # fmt: skip
    return Findings((Finding(**given),), ("absent",), (), 330_000)
