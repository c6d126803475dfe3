"""The levels that a governor chooses from: what each records, and what an event of it costs."""

from __future__ import annotations

from dataclasses import fields, replace

from opscope.recording.sources import RecordingOptions, native_wants

LEVELS = (
    ("nothing", frozenset[str]()),
    ("steps", frozenset({"annotations", "modules", "gc_pauses", "asyncio"})),
    ("outermost", frozenset({"operators", "overloads"})),
    ("operators", frozenset({"inner_operators"})),
    ("arguments", frozenset({"shapes", "outputs", "memory"})),
    ("stacks", frozenset({"functions", "own_functions", "stack"})),
)
"""What each level records beside what those before it do."""

EVENT_COST = {
    "nothing": 0.0,
    "steps": 1.0,
    "outermost": 5.0,
    "operators": 1.0,
    "arguments": 2.5,
    "stacks": 1.5,
}
"""Of an event, in costs of a plain span: nodes of backward passes get names that are made for
nobody else, which takes 2 to 4 µs with cold caches; arguments are copied, frames are looked up."""


def levels_of(options: RecordingOptions, has_outermost: bool) -> list[tuple[str, int]]:
    """The levels that ``options`` have something of, each with the recorder's bits."""
    levels: list[tuple[str, int]] = []
    rest = {field.name for field in fields(options)} - frozenset().union(*(on for _, on in LEVELS))
    kept = set(rest)
    for name, adds in LEVELS:
        kept |= adds
        is_there = any(getattr(options, option) for option in adds)
        if name in ("outermost", "operators"):
            is_there &= options.operators and (has_outermost or name != "outermost")
        if name in ("nothing", "steps") or is_there:
            off = {field.name: False for field in fields(options) if field.name not in kept}
            levels.append((name, 0 if name == "nothing" else native_wants(replace(options, **off))))
    return levels
