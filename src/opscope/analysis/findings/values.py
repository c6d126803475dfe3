"""Which operators computed the same value: same operator, same arguments, same contents.

Every outermost operator gets a number made of its name, its scalars and the numbers of what made
its arguments. What writes to memory in place makes a new value of the one that was there, and of
its other arguments. What random operators give is like nothing else.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.analysis.findings.in_place import (
    allocations_written,
    memory_written,
    writes_to_lists,
)
from opscope.analysis.findings.subject import Flags, Subject, Values
from opscope.analysis.signatures import mix, scalar_signatures
from opscope.cached_property import cached_property
from opscope.trace.row_groups import group_rows, order_rows, places_in
from opscope.trace.schema import AllocationAction, RecordScope, Role

Numbers = npt.NDArray[np.uint64]

_RANDOM = (
    "rand", "normal", "bernoulli", "dropout", "multinomial", "uniform", "exponential", "poisson",
    "geometric", "cauchy", "empty",
)  # fmt: skip
"""Parts of the names of operators whose result does not follow from their arguments."""

_GIVEN = (Role.INPUT, Role.KEYWORD, Role.INPUT_PART)
"""Indices, as in ``x[rows]``, are parts of an argument."""

_DEPTH = 24
"""Of operators whose results are arguments of others; what is deeper is taken to differ."""


_STEPS_BETWEEN = 6
"""Operators between one and another that gets what became of its result."""


class ComputedValues:
    """Arrays have shape (events,) unless said otherwise.

    Attributes:
        number: of the value each outermost operator computed; unique where it cannot be told.
        from_nothing: it follows from scalars alone.
        rows: of ``tensors`` that are arguments of outermost operators. Shape (arguments,).
        event: of each such argument, the operator. Shape (arguments,).
        producer: the outermost operator that made its memory, -1 for none seen. Shape (arguments,).
        source: the one that made what it holds: the last that wrote to memory with a producer, or
            that itself. Shape (arguments,).
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        size = len(subject.parent)
        tensors = subject.trace.table("tensors")
        self.rows = self._argument_rows()
        self.event = tensors["event"][self.rows].astype(np.int64)
        self.producer = self._producers()
        self.source = self._sources()
        self._base = mix(subject.events["name"].astype(np.int64)) ^ scalar_signatures(subject.trace)
        self._base ^= self._numbers()
        self.number, self.from_nothing = self._solve(size)

    def _argument_rows(self) -> Values:
        tensors, subject = self._subject.trace.table("tensors"), self._subject
        event = tensors["event"].astype(np.int64)
        outermost = subject.is_operator[event] & (subject.operator_parent[event] < 0)
        given = outermost & np.isin(tensors["role"], _GIVEN) & (tensors["impl"] != 0)
        return np.flatnonzero(given & ~tensors["is_wrapped_number"])

    def _numbers(self) -> Numbers:
        """Operators with a Python number among their arguments, whose value is not recorded.

        They are told apart by the line that they are at: there it is most likely the same.
        """
        tensors = self._subject.trace.table("tensors")
        has = np.zeros(len(self._subject.parent), dtype=np.bool_)
        has[tensors["event"][tensors["is_wrapped_number"]]] = True
        frame, line = (column.astype(np.int64) for column in self._subject.sites.at)
        return np.where(has, mix(frame * 1_000_003 + line), np.uint64(0))

    def _producers(self) -> Values:
        """The outermost operator that allocated each argument's memory, -1 for none seen."""
        return self.makers_of(self._subject.trace.table("tensors")["allocation_id"][self.rows])

    def _sources(self) -> Values:
        first, reached = self._writes_until
        last = np.full(len(first), -1, dtype=np.int64)
        written = reached > first
        last[written] = memory_written(self._subject)[1][reached[written] - 1]
        # What wrote to it before it was made wrote to what was there until then.
        return np.where(self.producer >= 0, np.maximum(last, self.producer), -1)

    def makers_of(self, allocations: Values) -> Values:
        """The outermost operator that made each of these allocations, given by id; -1 for none."""
        ids, makers = self._makers
        if not len(ids):
            return np.full(len(allocations), -1, dtype=np.int64)
        at = np.maximum(places_in(ids, allocations, side="right") - 1, 0)
        return np.where(ids[at] == allocations, makers[at], -1)

    @cached_property
    def _makers(self) -> tuple[Values, Values]:
        """Ids of allocations, in order, and the outermost operator that made each.

        Ids may be any numbers in a file, so that nothing is indexed by them.
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
        """Operators that get what ``sources`` made, or what ``through`` made of that."""
        made, gets = sources, np.zeros(len(sources), dtype=np.bool_)
        known = self.producer >= 0
        event, producer = self.event[known], self.producer[known]
        for _ in range(_STEPS_BETWEEN):
            gets[event[made[producer]]] = True
            made = sources | (gets & through)
        return gets

    def behind(self, users: Flags, through: Flags) -> Flags:
        """Operators of ``through`` whose result ``users`` got, or what ``through`` made of it."""
        found = np.zeros(len(users), dtype=np.bool_)
        known = self.producer >= 0
        event, producer = self.event[known], self.producer[known]
        for _ in range(_STEPS_BETWEEN):
            found[producer[(users | found)[event]]] = True
            found &= through
        return found

    def rests_on_numbers(self) -> Flags:
        """Whether a Python number whose value was not recorded is behind what was computed."""
        tensors = self._subject.trace.table("tensors")
        rests = np.zeros(len(self._subject.parent), dtype=np.bool_)
        rests[tensors["event"][tensors["is_wrapped_number"]]] = True
        known = self.source >= 0
        event, source = self.event[known], self.source[known]
        for _ in range(_DEPTH):
            rests[event[rests[source]]] = True
        return rests

    def _contents(self) -> Numbers:
        """A number for what each argument's memory holds that no operator seen has made.

        Memory whose allocation was not seen may be another's by now, at the same address: it is
        the same where one tensor stands for it most of the time, as a parameter does; else only as
        long as the tensor is.
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
        return np.asarray(mix(storage) ^ mix(mix(allocation) + mix(np.where(fleeting, impl, 0))))

    @cached_property
    def _writes_until(self) -> tuple[Values, Values]:
        """Of each argument's memory the first of all writes to it, and the first after its call."""
        memory, by = memory_written(self._subject)
        storage = self._subject.trace.table("tensors")["storage"][self.rows].astype(np.int64)
        size = len(self._subject.parent) + 1
        block = group_rows(np.concatenate([memory, storage])).group
        keys, wanted = block[: len(memory)] * size + by, block[len(memory) :] * size
        return places_in(keys, wanted), places_in(keys, wanted + self.event)

    def _writes_before(self) -> Values:
        """How often each argument's memory had been written to before its call."""
        first, reached = self._writes_until
        return reached - first

    def written_after(self, operators: Values) -> Flags:
        """Whether what each of these operators made was written to by another one."""
        maker, by = self._written
        touched = np.zeros(len(self._subject.parent) + 1, dtype=np.bool_)
        touched[maker[maker != by]] = True
        return touched[operators]

    def overwritten(self, again: Flags) -> Flags:
        """Whether operators that are not of ``again`` write to what each made or wrote to.

        It could not be used again then; where all that write to it are, what they make of it can.
        """
        maker, by = self._written
        maker, by = maker[maker >= 0], by[maker >= 0]
        lost = np.zeros(len(again), dtype=np.bool_)
        lost[maker[(maker != by) & ~again[by]]] = True
        lost[by[lost[maker]]] = True
        return lost

    @cached_property
    def _written(self) -> tuple[Values, Values]:
        """Of everything that is written to in place, who made that, -1 for none, and who writes."""
        allocation, by = allocations_written(self._subject)
        return self.makers_of(allocation), by

    def _solve(self, size: int) -> tuple[Numbers, Flags]:
        subject, tensors = self._subject, self._subject.trace.table("tensors")
        for_lists = writes_to_lists(subject)
        unique = subject.named_like(*_RANDOM) | for_lists
        # What autograd runs shows no arguments of its own.
        plain = subject.is_operator & (subject.events["scope"] == RecordScope.FUNCTION)
        unique = unique | ~plain | subject.named_like("autograd::")
        # Nor do spans that torch.compile names itself: a region of compiled code is no constant.
        unique |= ~subject.named_like("::")
        memory = self._contents() ^ mix(self._writes_before())
        shape = mix(tensors["storage_offset"][self.rows]) ^ mix(tensors["version"][self.rows])
        shape ^= _layouts(subject, self.rows)
        which = tensors["allocation_id"][self.rows].astype(np.int64)
        of_many = (self.source >= 0) & for_lists[self.source]
        shape ^= np.where(of_many, mix(which), np.uint64(0))
        place = mix(
            tensors["argument"][self.rows].astype(np.int64) * 4096 + tensors["element"][self.rows]
        )
        return _native.equal_values(
            self._base, unique, self.event, self.source, memory, shape, place, _DEPTH
        )


def _spans(group: Values, event: Values) -> Values:
    """Of each group, how far its first and last event are apart."""
    count = int(group.max(initial=-1)) + 1
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, dtype=np.int64)
    np.minimum.at(first, group, event)
    np.maximum.at(last, group, event)
    return np.asarray(last - first)


def _layouts(subject: Subject, rows: Values) -> Numbers:
    """A number for sizes, strides and type of each tensor."""
    tensors = subject.trace.table("tensors")
    total = np.zeros(len(rows), dtype=np.uint64)
    for salt, name in enumerate(("sizes", "strides")):
        lists = tensors.lists(name)
        length = lists.offsets[rows + 1] - lists.offsets[rows]
        owner = np.repeat(np.arange(len(rows)), length)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(length) - length, length)
        value = lists.values[np.repeat(lists.offsets[rows], length) + place]
        np.add.at(total, owner, mix(mix(value) + mix(place * 2 + salt)))
    return total ^ mix(tensors["dtype"][rows].astype(np.int64) + 64)
