"""Which lines of the program every call in a generated file is for.

Three things say so. What was noted while the code was generated is exact. For code from a cache
there are inductor's table of lines, which the cache keeps, and the comments in the file.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from opscope.columns.codes import OriginsKnownFrom
from opscope.recording.compiled.code_generation import Emitted
from opscope.recording.compiled.generated_code import Site, operators_in_name
from opscope.recording.compiled.origin import Origin, place_in_stack, present_place, without_doubles

LineTable = Sequence[tuple[int, str]]
"""Where nodes of the graph begin to be worked on, by line of the generated file; their stacks."""


@dataclass(frozen=True)
class PlacedSite:
    """A call in a generated file, with what it is for."""

    site: Site
    origins: tuple[Origin, ...]
    known_from: OriginsKnownFrom


def placed_sites(
    sites: Sequence[Site], table: LineTable, emitted: Emitted | None
) -> list[PlacedSite]:
    """Every call, with what is known of it."""
    noted = _noted(sites, emitted)
    stacks = _stacks_of(sites, table)
    return [
        PlacedSite(site, known, OriginsKnownFrom.GENERATION)
        if (known := noted.get(index))
        else _from_cache(site, stacks[index])
        for index, site in enumerate(sites)
    ]


def _noted(sites: Sequence[Site], emitted: Emitted | None) -> dict[int, tuple[Origin, ...]]:
    """By index of the call: what was noted for it. Calls stand in the order they were made in."""
    if emitted is None:
        return {}
    found: dict[int, tuple[Origin, ...]] = {}
    kernels = iter(emitted.kernels)
    for index, site in enumerate(sites):
        if site.is_graph:
            own = [*(own for _, own in emitted.kernels), *emitted.comments]
            found[index] = without_doubles(itertools.chain(*own))
        elif site.is_cpp:
            found[index] = next((own for name, own in kernels if name == site.callee), ())
        elif 0 <= site.comment < len(emitted.comments):
            found[index] = emitted.comments[site.comment]
    return found


def _stacks_of(sites: Sequence[Site], table: LineTable) -> list[list[str]]:
    """By index of the call: the stacks of the nodes that were worked on for it.

    A kernel in C++ is written once something else is next, whose node the table has first.
    """
    stacks: list[list[str]] = [[] for _ in sites]
    entries = list(table)
    if sites and sites[0].is_graph:
        return [[stack for _, stack in entries]]
    for index, site in enumerate(sites):
        mine = [stack for line, stack in entries if line <= site.line]
        del entries[: len(mine)]
        stacks[index] += mine
        follower = sites[index + 1] if index + 1 < len(sites) else None
        if follower is None or follower.is_cpp or not site.is_cpp or len(stacks[index]) < 2:
            continue
        if not any(line <= follower.line for line, _ in entries):
            stacks[index + 1].append(stacks[index].pop())
    return stacks


def _from_cache(site: Site, stacks: Sequence[str]) -> PlacedSite:
    operators = site.operators or (
        operators_in_name(site.callee) if site.callee.startswith("cpp_") else ()
    )
    operator = ", ".join(operators)
    nodes = ", ".join(site.nodes)
    places = [present_place(place_in_stack(stack), stack) for stack in stacks if stack]
    origins = without_doubles(Origin(nodes, operator, *place) for place in places)
    if not origins and (nodes or operator):
        origins = (Origin(nodes, operator),)
    known_from = OriginsKnownFrom.CACHE if origins else OriginsKnownFrom.NOTHING
    return PlacedSite(site, origins, known_from)
