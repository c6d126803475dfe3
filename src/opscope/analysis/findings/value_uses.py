"""What becomes of computed values: which lead to others, and which are there for others alone."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.subject import Flags, Values
from opscope.analysis.findings.values import ComputedValues

_LONGEST_CHAIN = 64


def used_by(values: ComputedValues, again: Flags) -> Flags:
    """Of ``again``, those whose result goes into another, at last into one that is not of them."""
    useful = np.zeros(len(again), dtype=np.bool_)
    known = values.source >= 0
    event, source = values.event[known], values.source[known]
    for _ in range(_LONGEST_CHAIN):
        before = int(useful.sum())
        useful[source[~again[event] | useful[event]]] = True
        if int(useful.sum()) == before:
            break
    return useful & again


def with_what_is_for(values: ComputedValues, rows: Values, again: Flags) -> Flags:
    """These operators, and those of ``again`` whose result no others than these get."""
    going = np.zeros(len(again), dtype=np.bool_)
    going[rows] = True
    known = values.source >= 0
    event, source = values.event[known], values.source[known]
    for _ in range(_LONGEST_CHAIN):
        before = int(going.sum())
        wanted = np.zeros_like(going)
        wanted[source[going[event]]] = True
        wanted[source[~going[event] & (event != source)]] = False
        going |= wanted & again
        if int(going.sum()) == before:
            break
    return going
