"""The events of a trace as opscope's own views count them; see ``TorchListing`` for torch's."""

from __future__ import annotations

import numpy as np

from opscope.base.cached_property import cached_property
from opscope.timeline.listing import Flags, Labels, TorchListing, Values
from opscope.timeline.tree.frame_text import own_texts
from opscope.timeline.tree.own_time import outermost_of, own_times


class OwnListing(TorchListing):
    """Every event, collections and bookkeeping too, each instant of a thread once.

    What torch folds into its caller of the same name is folded here as well.
    """

    _hidden_names = frozenset()
    _hides_collections = False

    def _names(self) -> tuple[Labels, list[str]]:
        return own_texts(self.trace)

    @cached_property
    def self_ns(self) -> Values:
        """Own time of every event, and of what is folded into it."""
        own = own_times(self.trace)
        folded = np.flatnonzero(~self.listed)
        if not len(folded):
            return own
        own = own.copy()
        np.add.at(own, self.parent[folded], own[folded])
        return own

    def counted(self, total: Values) -> Values:
        """0 for what runs within another event of its name, whose value has it already."""
        return np.where(self._is_outermost, total, 0)

    @cached_property
    def _is_outermost(self) -> Flags:
        return outermost_of(self.trace, np.arange(len(self.listed)), self.group_label)
