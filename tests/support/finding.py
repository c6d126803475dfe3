"""Findings for tests of what shows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from opscope.findings.finding import Finding, Findings


def finding(**columns: Any) -> Findings:
    """One finding, of what is given and of nothing special."""
    given = {
        "id": "name-pattern", "title": "", "explanation": "", "advice": "", "occurrences": 2,
        "events": np.array([3, 10]), "time_ns": 60_000, "time_share": 0.2, "saved_ns": 40_000,
        "saved_share": 0.12, "saved_by": "", "measured": False, "places": (), "place_note": "",
        "link": "", **columns,
    }  # fmt: skip
    return Findings((Finding(**given),), ("absent",), (), 330_000)
