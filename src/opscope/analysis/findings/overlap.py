"""Findings that explain the same time: the one that says more comes first."""

from __future__ import annotations

import numpy as np

from opscope.analysis.findings.finding import Finding
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.tree.ancestry import nearest_ancestor

_MOSTLY, _FILLED = 0.5, 0.2
_WORTH_IT = 0.15
"""Of what the general finding saves, what one that explains its time has to save."""


def general_last(subject: Subject, found: list[Finding], general: set[str]) -> list[Finding]:
    """General findings after those in whose events most of theirs happened."""
    result = list(found)
    for finding in [one for one in found if one.id in general]:
        others = [
            one for one in found if one.id not in general and _explains(subject, one, finding)
        ]
        if others:
            result.remove(finding)
            result.insert(max(result.index(other) for other in others) + 1, finding)
    return result


def _explains(subject: Subject, other: Finding, general: Finding) -> bool:
    if other.weight < _WORTH_IT * general.weight:
        return False
    inside = _inside(subject, other.events)[general.events]
    inside |= _mostly_filled(subject, general.events, other.events)
    took = subject.duration_ns[general.events]
    return bool(took[inside].sum() > _MOSTLY * max(int(took.sum()), 1))


def _mostly_filled(subject: Subject, around: Values, events: Values) -> Flags:
    """Whether most of each of ``around`` passes in ``events``: a function in which a loop runs."""
    outer = np.zeros(len(subject.parent), dtype=np.bool_)
    outer[around] = True
    above = nearest_ancestor(subject.parent, outer)[events]
    took = np.zeros(len(outer), dtype=np.int64)
    np.add.at(took, above[above >= 0], subject.duration_ns[events][above >= 0])
    return np.asarray(took[around] > _FILLED * subject.duration_ns[around])


def _inside(subject: Subject, events: Values) -> Flags:
    """Whether each event is one of ``events``, or runs in one, or around one of Python's."""
    chosen = np.zeros(len(subject.parent), dtype=np.bool_)
    chosen[events] = True
    return np.asarray(chosen | (nearest_ancestor(subject.parent, chosen) >= 0))
