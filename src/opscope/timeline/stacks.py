"""The Python stack of every event, as pointers into the event tree."""

from __future__ import annotations

import numpy as np

import opscope._native as _native
from opscope.timeline.arrays import Values
from opscope.timeline.listing import TorchListing
from opscope.timeline.signatures import Signature, mix
from opscope.timeline.tree.event_tree import event_arrays, nearest_ancestor, numbers_of_threads
from opscope.timeline.tree.frame_text import python_events

_HIDDEN_FRAMES = (
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
    ("_internal/common_utils", "prof_callable"),
    ("_internal/common_utils", "prof_func_call"),
    ("_internal/common_utils", "prof_meth_call"),
)
"""Frames that torch omits from stacks: part of the file, part of the function."""


class Stacks:
    """Stacks of a listing's events. Arrays have shape (events,).

    A backward operator has the stack of its forward operator, as in torch; without a forward
    operator in the trace it has none.

    Attributes:
        innermost: event that is the innermost frame of each event's stack; -1 for no stack.
        caller: event that is the next outer frame of each frame; -1 none.
    """

    def __init__(
        self, listing: TorchListing, with_itself: bool = False, of_makers: bool = False
    ) -> None:
        """Stacks as torch's; ``with_itself`` adds a frame to its own stack, ``of_makers`` takes the
        stacks of backward operators from :func:`forward_source`."""
        self._label, self._texts = listing.label, listing.texts
        is_frame = python_events(listing.trace) & listing.listed
        if is_frame.any():
            shown = np.array([is_stack_entry(text) for text in listing.texts], dtype=np.bool_)
            is_frame &= shown[listing.label]
        self.caller = nearest_ancestor(listing.tree.parent, is_frame)
        source = _sources(listing, of_makers)
        self.innermost: Values = np.where(source >= 0, self.caller[source], -1)
        if with_itself:
            self.innermost = np.where(is_frame, np.arange(len(is_frame)), self.innermost)

    def __bool__(self) -> bool:
        return bool((self.innermost >= 0).any())

    def of(self, event: int, limit: int | None = None) -> list[str]:
        """Frames of one event, innermost first, at most ``limit``."""
        frames: list[str] = []
        row = int(self.innermost[event])
        while row >= 0 and (limit is None or len(frames) < limit):
            frames.append(self._texts[self._label[row]])
            row = int(self.caller[row])
        return frames

    def signatures(self, limit: int, innermost: Values | None = None) -> Signature:
        """Hash of each event's ``limit`` innermost frames; equal for equal texts.

        ``innermost``: hash the stacks with these innermost frames instead, -1 for none.
        """
        frame = np.array(self.innermost if innermost is None else innermost)
        total = np.zeros(len(frame), dtype=np.uint64)
        for depth in range(limit):
            rows = np.flatnonzero(frame >= 0)
            if not rows.size:
                break
            place = np.uint64(mix(np.array([depth]))[0])
            total[rows] += mix(mix(self._label[frame[rows]]) ^ place)
            frame[rows] = self.caller[frame[rows]]
        return total

    def longest_entry(self) -> int:
        """Length of the longest text in any stack; 0 without stacks."""
        in_a_stack = np.concatenate([self.innermost, self.caller])
        labels = np.unique(self._label[in_a_stack[in_a_stack >= 0]])
        return max((len(self._texts[label]) for label in labels), default=0)


def is_stack_entry(text: str) -> bool:
    """Whether torch shows this frame in stacks."""
    return not any(file in text and function in text for file, function in _HIDDEN_FRAMES)


def forward_source(listing: TorchListing) -> Values:
    """For each event itself, or the forward operator of a backward one; -1 none.

    Operators that need no gradient have the sequence number of the next operator that does. torch's
    stacks use the first of those; this returns the operator that made the node, for the outermost
    ancestor with that number.
    """
    return _sources(listing, makers=True)


def _sources(listing: TorchListing, makers: bool) -> Values:
    source = _native.stack_sources(
        event_arrays(listing.trace),
        numbers_of_threads(listing.trace),
        (np.ascontiguousarray(listing.listed), np.ascontiguousarray(listing.nested)),
        makers,
    )
    return source.astype(np.int64)
