"""What only moved elsewhere, told from what got slower or faster.

Work that is done in another module, or by another operator of the same module, takes its time
along: one place is faster by what another is slower. Such changes are matched with each other,
first between places of one operator, then between operators of one module; what is left has
changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from opscope.analysis.diff.places import CallPlace

Times = npt.NDArray[np.float64]


def moved_times(places: Sequence[CallPlace], change_ns: Times) -> Times:
    """Of every change the part that went to, or came from, another of the places.

    It has the sign of the change and is never larger, and all of them add up to 0: what a step
    takes longer is the sum of what has not moved.
    """
    moved = np.zeros(len(change_ns))
    for kinship in ([place.operator for place in places], [place.module for place in places]):
        moved += _matched(kinship, change_ns - moved)
    return moved


def _matched(kinship: Sequence[str], change_ns: Times) -> Times:
    """Of each change what others of its kin, of the other sign, make up for; shared alike."""
    rows: dict[str, int] = {}
    kin = np.array([rows.setdefault(name, len(rows)) for name in kinship], dtype=np.int64)
    more, less = np.maximum(change_ns, 0), np.maximum(-change_ns, 0)
    if not len(kin):
        return more
    of_more, of_less = (np.bincount(kin, part, len(rows)) for part in (more, less))
    common = np.minimum(of_more, of_less)
    share_of_more = np.divide(common, of_more, out=np.zeros(len(rows)), where=of_more > 0)
    share_of_less = np.divide(common, of_less, out=np.zeros(len(rows)), where=of_less > 0)
    return np.asarray(more * share_of_more[kin] - less * share_of_less[kin], dtype=np.float64)
