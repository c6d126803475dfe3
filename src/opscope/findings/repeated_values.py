"""Operators that computed the same value: same operator, arguments and contents.

Every outermost operator gets a number: a hash of its name, its scalars and the numbers of its
arguments' makers. An in-place operator makes a new value from the old one and its other arguments.
Values of random operators are unique.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.base.cached_property import cached_property
from opscope.columns.row_groups import group_rows, order_rows
from opscope.columns.schema import AllocationAction, RecordScope, Role
from opscope.findings.subject import Flags, Subject, Values
from opscope.timeline.signatures import mix, scalar_signatures

Numbers = npt.NDArray[np.uint64]

_RANDOM = (
    "rand", "normal", "bernoulli", "dropout", "multinomial", "uniform", "exponential", "poisson",
    "geometric", "cauchy", "empty",
)  # fmt: skip
"""Parts of the names of operators whose result does not follow from their arguments."""

_LISTS = ("_foreach_", "_fused_")
GIVEN = (Role.INPUT, Role.KEYWORD, Role.INPUT_PART)
"""Roles of arguments; indices, as in ``x[rows]``, are parts of an argument."""

_DEPTH, _STEPS_BETWEEN = 24, 6
"""Longest chain of operators that is followed; deeper values count as different. Most operators
between a result and its user."""


def computed_values(subject: Subject) -> ComputedValues:
    """Values computed in this subject, determined once."""
    return subject.once(ComputedValues)


class ComputedValues:
    """Numbers for the values of operators. Arrays have shape (events,) unless stated otherwise.

    Attributes:
        rows: rows of ``tensors`` that are arguments of outermost operators. Shape (arguments,).
        event: operator of each argument. Shape (arguments,).
        producer: outermost operator that allocated its memory, -1 if unknown. Shape (arguments,).
        source: outermost operator that last wrote its contents: the producer or a later in-place
            operator; -1 without a producer. Shape (arguments,).
    """

    def __init__(self, subject: Subject) -> None:
        self._subject, tensors = subject, subject.trace.table("tensors")
        event = tensors["event"].astype(np.int64)
        given = subject.is_outermost[event] & np.isin(tensors["role"], GIVEN)
        given &= tensors["impl"] != 0
        self.rows: Values = np.flatnonzero(given & ~tensors["is_wrapped_number"])
        self.event: Values = event[self.rows]
        self.producer = self.makers_of(tensors["allocation_id"][self.rows])
        first, reached = self._writes_until
        last = np.full(len(first), -1, dtype=np.int64)
        last[reached > first] = self._writes[1][reached[reached > first] - 1]
        # Writes before the allocation changed earlier contents of that memory.
        self.source = np.where(self.producer >= 0, np.maximum(last, self.producer), -1)

    def makers_of(self, allocations: Values) -> Values:
        """Outermost operator that made each of these allocations, given by id; -1 for none."""
        ids, makers = self._makers
        if not len(ids):
            return np.full(len(allocations), -1, dtype=np.int64)
        at = np.maximum(np.searchsorted(ids, allocations, side="right") - 1, 0)
        return np.where(ids[at] == allocations, makers[at], -1)

    @cached_property
    def _makers(self) -> tuple[Values, Values]:
        """Ids of allocations, in order, and the outermost operator that made each.

        Ids in a file may be any numbers, so they are no indices.
        """
        table = self._subject.trace.table("allocations")
        rows = np.flatnonzero(
            (table["action"] == AllocationAction.ALLOCATE)
            & (table["allocation_id"] >= 0) & (table["event"] >= 0)
        )  # fmt: skip
        rows = rows[order_rows(table["allocation_id"][rows])]
        makers = self._subject.outermost_operator[table["event"][rows]]
        return table["allocation_id"][rows], makers

    def leads_to(self, sources: Flags, through: Flags) -> Flags:
        """Operators that use results of ``sources``, directly or through ``through`` operators."""
        made, gets = sources, np.zeros(len(sources), dtype=np.bool_)
        known = self.producer >= 0
        event, producer = self.event[known], self.producer[known]
        for _ in range(_STEPS_BETWEEN):
            gets[event[made[producer]]] = True
            made = sources | (gets & through)
        return gets

    def feeds(
        self, users: Flags, through: Flags, made: Values | None = None, steps: int = _STEPS_BETWEEN
    ) -> Flags:
        """Operators whose results ``users`` use, directly or through ``through`` operators.

        ``made``: maker of each argument, -1 for none; by default ``producer``.
        """
        made = self.producer if made is None else made
        wanted, found = users, np.zeros(len(users), dtype=np.bool_)
        event, made = self.event[made >= 0], made[made >= 0]
        for _ in range(steps):
            before = int(found.sum())
            found[made[wanted[event]]] = True
            if int(found.sum()) == before:
                break
            wanted = users | (found & through)
        return found

    @cached_property
    def _in_place(self) -> tuple[Flags, Values]:
        """In-place operators, by name; and the outermost operator around each event, or itself."""
        names = [text for text in self._subject.names_used if text.endswith("_")]
        around = self._subject.outermost_operator
        return self._subject.named(*names), np.where(around >= 0, around, np.arange(len(around)))

    @cached_property
    def _of_lists(self) -> Flags:
        """Whether an event writes to tensors of a list; the trace does not say to which."""
        return self._in_place[0] & self._subject.name_contains(*_LISTS)

    @cached_property
    def _writes(self) -> tuple[Values, Values]:
        """Memory and outermost operator of each in-place write, sorted by both."""
        tensors, (writes, around) = self._subject.trace.table("tensors"), self._in_place
        event, is_input = tensors["event"].astype(np.int64), tensors["role"] == Role.INPUT
        written = (writes[event] & (tensors["argument"] == 0)) | self._of_lists[event]
        rows = np.flatnonzero(written & is_input & (tensors["storage"] != 0))
        memory, by = tensors["storage"][rows].astype(np.int64), around[event[rows]]
        order = order_rows(memory, by)
        return memory[order], by[order]

    @cached_property
    def _writes_until(self) -> tuple[Values, Values]:
        """Position of the first write to each argument's memory, overall and from its use on."""
        memory, by = self._writes
        storage = self._subject.trace.table("tensors")["storage"][self.rows].astype(np.int64)
        size = len(self._subject.parent) + 1
        block = group_rows(np.concatenate([memory, storage])).group
        keys, wanted = block[: len(memory)] * size + by, block[len(memory) :] * size
        return np.searchsorted(keys, wanted), np.searchsorted(keys, wanted + self.event)

    @cached_property
    def _written(self) -> tuple[Values, Values]:
        """Maker (-1 for none) and writer of each tensor that is written to in place."""
        tensors, (writes, around) = self._subject.trace.table("tensors"), self._in_place
        event = tensors["event"].astype(np.int64)
        rows = writes[event] & (tensors["argument"] == 0) & (tensors["allocation_id"] >= 0)
        return self.makers_of(tensors["allocation_id"][rows]), around[event[rows]]

    @cached_property
    def is_written(self) -> Flags:
        """Whether another operator wrote to each operator's result."""
        maker, by = self._written
        return self._subject.flags(maker[maker != by])[:-1]

    def overwritten(self, again: Flags) -> Flags:
        """Whether operators outside ``again`` write to the memory that each made or wrote to.

        Such a result cannot be kept. If only operators of ``again`` write to it, their result can.
        """
        maker, by = self._written
        maker, by = maker[maker >= 0], by[maker >= 0]
        lost = np.zeros(len(again), dtype=np.bool_)
        lost[maker[(maker != by) & ~again[by]]] = True
        lost[by[lost[maker]]] = True
        return lost

    @cached_property
    def rests_on_numbers(self) -> Flags:
        """Whether a value depends on a Python number that was not recorded."""
        return self._spread(self._has_number)

    @cached_property
    def _has_number(self) -> Flags:
        tensors = self._subject.trace.table("tensors")
        return self._subject.flags(tensors["event"][tensors["is_wrapped_number"]])[:-1]

    @cached_property
    def from_nothing(self) -> Flags:
        """Operators whose value depends only on scalars."""
        varies = self._is_unique.copy()
        varies[self.event[self.source < 0]] = True
        return ~self._spread(varies)

    def _spread(self, first: Flags) -> Flags:
        """Operators of ``first``, and those that use their values, also indirectly."""
        found, known = first.copy(), self.source >= 0
        event, source = self.event[known], self.source[known]
        for _ in range(_DEPTH):
            found[event[found[source]]] = True
        return found

    @property
    def number(self) -> Numbers:
        """Value computed by each outermost operator, as a number; unique where unknown."""
        return self._solved[0]

    @property
    def is_deep(self) -> Flags:
        """Operators at the end of chains longer than ``_DEPTH``, whose number is not final."""
        return self._solved[1]

    @cached_property
    def _solved(self) -> tuple[Numbers, Flags]:
        subject, tensors = self._subject, self._subject.trace.table("tensors")
        base = mix(subject.events["name"].astype(np.int64)) ^ scalar_signatures(subject.trace)
        # Unrecorded Python numbers at one line are most likely equal.
        frame, line = (column.astype(np.int64) for column in subject.sites.at)
        base ^= np.where(self._has_number, mix(frame * 1_000_003 + line), np.uint64(0))
        itself = mix(np.arange(len(base))) ^ np.uint64(1)
        order = np.argsort(self.event, kind="stable")
        event, source = self.event[order], self.source[order]
        known, shape = source >= 0, self._shapes()[order]
        argument = tensors["argument"][self.rows].astype(np.int64) * 4096
        place = mix(argument + tensors["element"][self.rows])[order]
        holds = self._contents()[order]
        first = np.flatnonzero(np.diff(event, prepend=-1))
        gets, number = event[first], np.where(self._is_unique, itself, mix(base))
        number[gets] = itself[gets]
        deep = np.zeros(len(base), dtype=np.bool_)
        count = np.diff(first, append=len(event))
        going = np.arange(len(gets))  # operators whose arguments changed in the last pass
        for _ in range(_DEPTH if len(gets) else 0):
            begins = np.cumsum(count[going]) - count[going]
            rows = np.repeat(first[going] - begins, count[going])
            rows += np.arange(len(rows))  # rows of their arguments
            own = rows[known[rows]]
            holds[own] = number[source[own]]
            total = np.add.reduceat(mix((holds[rows] ^ shape[rows]) + place[rows]), begins)
            of = gets[going]
            found = np.where(self._is_unique[of], itself[of], mix(base[of] ^ total))
            deep[:] = False
            deep[of] = found != number[of]
            if not deep.any():
                break
            number[of] = found
            going = np.flatnonzero(np.logical_or.reduceat(known & deep[source], first))
            if not len(going):
                return number, np.zeros_like(deep)
        return number, deep

    @cached_property
    def _is_unique(self) -> Flags:
        """Random operators, autograd's operators (without arguments), regions of compiled code."""
        subject = self._subject
        plain = subject.is_operator & (subject.events["scope"] == RecordScope.FUNCTION)
        unique = subject.name_contains(*_RANDOM, "autograd::") | self._of_lists
        return np.asarray(unique | ~plain | ~subject.name_contains("::"))

    def _contents(self) -> Numbers:
        """A number for the contents of each argument that no recorded operator made.

        Memory without a recorded allocation may be reused at the same address. It counts as the
        same if one tensor has it most of the time, as a parameter does; else only for the same
        tensor.
        """
        tensors, ids = self._subject.trace.table("tensors"), self._makers[0]
        storage = tensors["storage"][self.rows].astype(np.int64)
        impl = tensors["impl"][self.rows].astype(np.int64)
        allocation = tensors["allocation_id"][self.rows]
        of_storage, of_tensor = group_rows(storage).group, group_rows(storage, impl).group
        longest = np.zeros(int(of_storage.max(initial=-1)) + 1, dtype=np.int64)
        np.maximum.at(longest, of_storage, _spans(of_tensor, self.event)[of_tensor])
        stays = longest * 2 >= _spans(of_storage, self.event)
        fleeting = ~np.isin(allocation, ids) & ~stays[of_storage]
        memory = mix(storage) ^ mix(mix(allocation) + mix(np.where(fleeting, impl, 0)))
        first, reached = self._writes_until
        return np.asarray(memory ^ mix(reached - first))

    def _shapes(self) -> Numbers:
        """A number for each argument's view of its memory, and for the memory's version."""
        tensors, rows = self._subject.trace.table("tensors"), self.rows
        shape = mix(tensors["storage_offset"][rows]) ^ mix(tensors["version"][rows])
        shape ^= mix(tensors["dtype"][rows].astype(np.int64) + 64)
        for salt, name in enumerate(("sizes", "strides")):
            lists = tensors.lists(name)
            length = lists.offsets[rows + 1] - lists.offsets[rows]
            owner = np.repeat(np.arange(len(rows)), length)
            place = np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)
            value = lists.values[np.repeat(lists.offsets[rows], length) + place]
            np.add.at(shape, owner, mix(mix(value) + mix(place * 2 + salt)))
        # If one operator writes to several tensors, the contents of each are unknown.
        together = (self.source >= 0) & self._of_lists[self.source]
        which = mix(tensors["allocation_id"][rows].astype(np.int64))
        return np.asarray(shape ^ np.where(together, which, np.uint64(0)))


def _spans(group: Values, event: Values) -> Values:
    """Distance between the first and the last event of each group."""
    count = int(group.max(initial=-1)) + 1
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, dtype=np.int64)
    np.minimum.at(first, group, event)
    np.maximum.at(last, group, event)
    return np.asarray(last - first)
