"""How often a trace must, and may, hold each thing, by thread; and how often it does.

Categories: ``operator``, ``annotation``, ``c`` and ``python`` (a function's name), ``module`` and
``optimizer`` (a class), ``gc`` (a generation), ``allocation`` and ``free`` (bytes).
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opscope.columns.schema import AllocationAction, EventKind
from torture.history import Actor, Deed, Effect, History, State
from torture.own_functions import PREFIX
from torture.windows import Window

_KINDS = {
    EventKind.OPERATOR: "operator",
    EventKind.ANNOTATION: "annotation",
    EventKind.PYTHON_CALL: "python",
    EventKind.C_CALL: "c",
    EventKind.MODULE_CALL: "module",
    EventKind.OPTIMIZER_CALL: "optimizer",
    EventKind.GC_PAUSE: "gc",
}
COUNTED_C = ("<built-in function hypot>",)
ELSEWHERE = -1
"""In place of a thread: all threads together, for what runs where torch wants it to."""


@dataclass
class Bounds:
    """Counts by thread and effect."""

    must: dict[int, Counter[Effect]] = field(default_factory=lambda: defaultdict(Counter))
    may: dict[int, Counter[Effect]] = field(default_factory=lambda: defaultdict(Counter))


def is_recorded(window: Window, category: str) -> bool:
    """Whether a window asked for this category."""
    options = window.options
    levels = ("with_stack", "with_functions", "with_own_functions")
    has_functions = any(options.get(level, False) for level in levels)
    if category == "c":
        return options["with_stack"]
    if category == "python":
        return has_functions
    if category in ("module", "optimizer"):
        return has_functions or options["with_modules"]
    if category in ("allocation", "free"):
        return options["profile_memory"]
    if category == "gc":
        return not window.is_torchs
    return True


def expected(window: Window, history: History) -> Bounds:
    """What the program knows."""
    bounds = Bounds()
    for actor in history.actors:
        if actor.counted and not is_covered(window, actor):
            continue
        for deed in actor.deeds:
            for number in window.numbers:
                _add(bounds, window, number, deed)
    return bounds


def _add(bounds: Bounds, window: Window, number: int, deed: Deed) -> None:
    if not deed.possibly_in(number):
        return
    thread = deed.actor.native_id if deed.actor.counted else ELSEWHERE
    unsure = _unsure(window, deed)
    bounds.may[thread].update(deed.effects)
    bounds.may[thread].update(deed.calls)
    if is_sure(deed, window, number):
        surely = {e: n for e, n in deed.effects.items() if e[0] not in unsure}
        bounds.must[thread].update(surely)
    if deed.surely_running_in(number):
        calls = {e: n for e, n in deed.calls.items() if e[0] not in unsure}
        bounds.must[thread].update(calls)


def _unsure(window: Window, deed: Deed) -> frozenset[str]:
    """Categories that need not be there."""
    born = deed.actor.born
    began_later = born is None or born[window.numbers[0]] > State.ABSENT
    if deed.hidden or (began_later and window.is_torchs):
        return frozenset(_PYTHON)
    return frozenset()


def is_covered(window: Window, actor: Actor) -> bool:
    """Whether the window is of this thread."""
    return window.all_threads or actor is window.actor


def is_sure(deed: Deed, window: Window, number: int) -> bool:
    """Whether a deed and what it needs show in this part of the window."""
    return (
        is_covered(window, deed.actor)
        and deed.surely_in(number)
        and all(any(is_sure(need, window, n) for n in window.numbers) for need in deed.needs)
    )


def found(trace: Any) -> dict[int, Counter[Effect]]:
    """What the trace holds, by kernel thread id."""
    counts: dict[int, Counter[Effect]] = defaultdict(Counter)
    threads = trace.table("threads")["system_thread_id"]
    events = trace.events
    called = _called(trace)
    begun = (events["kind"] == EventKind.ANNOTATION) & _is_from_before(trace)
    for row, (kind, thread) in enumerate(zip(events["kind"], events["thread"], strict=True)):
        if begun[row]:
            continue
        category = _KINDS[EventKind(kind)]
        counts[int(threads[thread])][category, called.get(row) or trace.event_name(row)] += 1
    for size, thread in _blocks(trace):
        effect = ("allocation", size) if size > 0 else ("free", -size)
        counts[int(threads[thread])][effect] += 1
    return counts


def _is_from_before(trace: Any) -> Any:
    """What was open when the recording began is cut there; deeds count where they begin."""
    return trace.events["start_ns"] == trace.metadata["start_ns"]


def _called(trace: Any) -> dict[int, object]:
    """What calls are compared by: names of own functions, classes of modules and optimizers."""
    calls = trace.table("python_calls")
    modules, optimizers = trace.table("modules"), trace.table("optimizers")
    functions = [trace.names[name] for name in trace.table("frames")["function"]]
    called: dict[int, object] = {}
    for event, frame, module, optimizer in zip(
        *(calls[column] for column in ("event", "frame", "module", "optimizer")), strict=True
    ):
        if module >= 0:
            called[int(event)] = trace.names[modules["class_name"][module]]
        elif optimizer >= 0:
            called[int(event)] = trace.names[optimizers["class_name"][optimizer]]
        elif frame >= 0:
            called[int(event)] = functions[frame]
    return called


def _blocks(trace: Any) -> list[tuple[int, int]]:
    """Size and thread of allocations, and of the frees of these.

    torch knows the size of a block that it frees only if a recording listened to its allocation,
    and may mistake an older one for it; so a free counts where the trace has the allocation too.
    """
    table = trace.table("allocations")
    is_made = table["action"] == AllocationAction.ALLOCATE
    made = set(table["allocation_id"][is_made].tolist())
    known = is_made | np.isin(table["allocation_id"], list(made))
    known &= table["action"] != AllocationAction.OUT_OF_MEMORY
    return list(
        zip(table["size_bytes"][known].tolist(), table["thread"][known].tolist(), strict=True)
    )


def is_compared(effect: Effect, history: History) -> bool:
    """Whether the program counts this at all."""
    category, name = effect
    if category == "python":
        number = str(name).rpartition("_")[2]
        known = number.isdigit() and any(a.number == int(number) for a in history.actors)
        return known and str(name).startswith(PREFIX)
    if category == "c":
        return name in COUNTED_C
    # Without the GIL, what another thread lets go of is freed by the one that made it, when that
    # next looks.
    return category != "free" or _HAS_GIL


def differences(window: Window, history: History) -> list[str]:
    """What a trace has too little of without saying so, or too much of."""
    trace = window.look()
    bounds, counts = expected(window, history), found(trace)
    account = _Account(window)
    for actor in history.actors:
        if actor.counted:
            thread = actor.native_id
            there = counts.get(thread, Counter())
            for effect in there.keys() | bounds.may[thread].keys():
                account.compare(actor, effect, there[effect], bounds)
    for effect in bounds.may[ELSEWHERE]:
        total = sum(count[effect] for count in counts.values())
        account.compare(None, effect, total, bounds)
    return account.told + account.unsaid()


_HAS_GIL = getattr(sys, "_is_gil_enabled", lambda: True)()
_PYTHON = ("python", "c", "module", "optimizer")


@dataclass
class _Account:
    """What differs, and what the ledger has to say about it."""

    window: Window
    told: list[str] = field(default_factory=list)
    unheard: dict[Actor, str] = field(default_factory=dict)  # whose Python calls are missing
    unreported_frees: list[str] = field(default_factory=list)
    missing_frees: Counter[Effect] = field(default_factory=Counter)  # that may be there
    surplus_frees: list[tuple[Effect, str]] = field(default_factory=list)

    def compare(self, actor: Actor | None, effect: Effect, there: int, bounds: Bounds) -> None:
        """One effect of one thread."""
        if not is_compared(effect, self.window.history):
            return
        thread = actor.native_id if actor else ELSEWHERE
        wanted = is_recorded(self.window, effect[0])
        least, most = bounds.must[thread][effect] * wanted, bounds.may[thread][effect] * wanted
        if effect[0] == "free":
            self.missing_frees[effect] += max(most - there, 0)
        if least <= there <= most:
            return
        text = _told(self.window, actor, effect, there, least, most)
        if there < least and actor is not None and actor.raw and effect[0] in _PYTHON:
            self.unheard[actor] = text
        elif there < least and effect[0] == "free":
            self.unreported_frees += [text] * (least - there)
        elif effect[0] == "free":
            self.surplus_frees += [(effect, text)] * (there - most)
        else:
            self.told.append(text)

    def unsaid(self) -> list[str]:
        """What is missing beyond what the ledger says is."""
        ledger = self.window.trace.ledger
        threads = ledger.get("threads", {}).get(
            "dropped: Python calls of threads not started by threading", 0
        )
        frees = ledger.get("frees", {}).get("dropped: not reported by torch", 0)
        said = f"\n    the ledger says so of {threads:.0f} threads"
        unheard = [text + said for text in self.unheard.values()]
        texts = unheard if len(unheard) > threads else []
        texts += self._unexplained_frees()
        return texts + (self.unreported_frees if len(self.unreported_frees) > frees else [])

    def _unexplained_frees(self) -> list[str]:
        """Of a thread that had nothing of the kind to free, nor took it for another's.

        torch remembers a block that is freed where it tells nobody. It takes the next one at that
        address for it, if it did not tell of that one's allocation either.
        """
        left, texts = self.missing_frees.copy(), []
        for effect, text in self.surplus_frees:
            left[effect] -= 1
            texts += [text] if left[effect] < 0 else []
        return texts


def _told(
    window: Window, actor: Actor | None, effect: Effect, found: int, least: int, most: int
) -> str:
    raw = "raw " if actor and actor.raw else ""
    who = f"actor {actor.number} ({raw}thread {actor.native_id})" if actor else "all threads"
    opener = window.actor.number
    asked = [option for option, is_set in window.options.items() if is_set]
    rows = _rows_of(window.trace, effect[1]) if effect[0] in ("allocation", "free") else ""
    return (
        f"window {window.number} of actor {opener} {asked}: {effect} of {who} is there {found} "
        f"times, and must be {least} to {most} times{rows}"
    )


def _rows_of(trace: Any, size: object) -> str:
    """The first allocations and frees of this size, for a failure's message."""
    table, threads = trace.table("allocations"), trace.table("threads")["system_thread_id"]
    rows = np.flatnonzero(np.abs(table["size_bytes"]) == size)[:12]
    columns = ("time_ns", "address", "size_bytes", "allocation_id", "event")
    return "".join(
        f"\n    thread {threads[table['thread'][row]]}, "
        + ", ".join(f"{column} {table[column][row]}" for column in columns)
        for row in rows
    )


def check_owners(window: Window, history: History) -> None:
    """Tensors are arguments of operators of the thread that made them.

    Raises:
        AssertionError: one is another thread's.
    """
    trace = window.look()
    tensors = trace.table("tensors")
    sizes = tensors.lists("sizes")
    events, threads = trace.events["thread"], trace.table("threads")["system_thread_id"]
    one_dimension = np.flatnonzero(np.diff(sizes.offsets) == 1)
    for row in one_dimension:
        owner = history.owners.get(int(sizes.values[sizes.offsets[row]]))
        if owner is not None and owner.counted:
            event = tensors["event"][row]
            assert threads[events[event]] == owner.native_id, trace.event_name(event)
