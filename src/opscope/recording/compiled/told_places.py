"""Places in generated code as text, for a process that has no graph loaded: a line for each file.

A file stays as it is, so each is read once, by whoever wants to tell of all again and again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple
from typing import Any, TypeAlias

from opscope import _native
from opscope.columns.codes import OriginsKnownFrom
from opscope.recording.compiled.generated_code import Site
from opscope.recording.compiled.graphs import loaded_files, sites_of, when_loaded
from opscope.recording.compiled.lines import PlacedSite
from opscope.recording.compiled.origin import Origin

PlacedFiles: TypeAlias = dict[str, tuple[str, list[PlacedSite]]]
"""By generated file: the name of its graph, and what that calls."""

_NOTE = "generated code"


def note_places_of(file: str) -> None:
    """Into the stream that runs, if one does: whoever is killed has told them already."""
    for name, told in _told_of([file]).items():
        _native.note_in_stream(json.dumps({_NOTE: [name, *told]}))


when_loaded.append(note_places_of)


def noted_places(notes: Iterable[str]) -> dict[str, list[Any]]:
    """What was noted, as :func:`told_now` would say it."""
    told = (json.loads(note).get(_NOTE) for note in notes if _NOTE in note)
    return {file: [graph, sites] for file, graph, sites in filter(None, told)}


class ToldPlaces:
    """Of all graphs that are loaded in this process, as :func:`read_places` reads them."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._lines: list[bytes] = []

    def lines(self) -> list[bytes]:
        """One for each graph, with those that were loaded since this was last asked."""
        new = loaded_files() - self._known
        for file, told in _told_of(new).items():
            self._lines.append(json.dumps([file, *told]).encode() + b"\n")
        self._known |= new
        return list(self._lines)


def read_places(text: bytes) -> PlacedFiles:
    """What another process told, as far as it came; its last line may be cut."""
    whole, _, _ = text.rpartition(b"\n")
    told = (json.loads(line) for line in whole.splitlines())
    return placed_files({file: rest for file, *rest in told})


def told_now() -> dict[str, list[Any]]:
    """As JSON, for :func:`placed_files`: of all graphs that are loaded now, by file."""
    return _told_of(loaded_files())


def placed_files(told: Mapping[str, Any]) -> PlacedFiles:
    """What was told by :func:`told_now`."""
    return {file: (graph, list(_placed(sites))) for file, (graph, sites) in told.items()}


def _told_of(files: Iterable[str]) -> dict[str, list[Any]]:
    found = sites_of(files).items()
    return {file: [graph, [_as_list(one) for one in sites]] for file, (graph, sites) in found}


def _as_list(placed: PlacedSite) -> list[Any]:
    site, origins = placed.site, [list(astuple(one)) for one in placed.origins]
    return [site.line, site.callee, site.is_cpp, origins, int(placed.known_from)]


def _placed(told: Iterable[list[Any]]) -> Iterator[PlacedSite]:
    for line, callee, is_cpp, origins, known_from in told:
        made = tuple(Origin(*one) for one in origins)
        yield PlacedSite(Site(line, callee, is_cpp), made, OriginsKnownFrom(known_from))
