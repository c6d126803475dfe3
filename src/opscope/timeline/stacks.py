"""The Python stack every event ran under, as pointers into the event tree."""

from __future__ import annotations

import numpy as np

from opscope import _native
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
"""Frames torch leaves out of stacks: file part, function part."""


class Stacks:
    """Stacks of a listing's events. Arrays have shape (events,).

    A backward operator has the stack of the forward operator it belongs to, as in torch; without a
    forward in the trace it has none.

    Attributes:
        innermost: event that is the innermost frame of each event's stack; -1 for no stack.
        caller: event that is the next frame outwards of each frame; -1 none.
    """

    def __init__(
        self, listing: TorchListing, with_itself: bool = False, of_makers: bool = False
    ) -> None:
        """As torch's; or ``with_itself``, where a frame's own stack ends with it, or ``of_makers``,
        where backward operators have the stacks that :func:`forward_source` says."""
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
        """One number per event for its ``limit`` innermost frames; equal for equal texts.

        Or of the stacks that have these ``innermost`` frames, -1 for none.
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
        """Length of the longest text in any stack; 0 if there is none."""
        in_a_stack = np.concatenate([self.innermost, self.caller])
        labels = np.unique(self._label[in_a_stack[in_a_stack >= 0]])
        return max((len(self._texts[label]) for label in labels), default=0)


def is_stack_entry(text: str) -> bool:
    """Whether torch shows this frame in stacks."""
    return not any(file in text and function in text for file, function in _HIDDEN_FRAMES)


def forward_source(listing: TorchListing) -> Values:
    """Of each event itself, or the forward operator that it runs backwards; -1 none.

    Operators that need no gradient have the sequence number of the next that does. torch's stacks
    take the first of those; this is the one that made the node, for the outermost operator with
    that number that it runs in.
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
