"""The compiled code that ran in one window: calls of its graphs, and their source lines."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any, TypeAlias

import numpy as np

import opscope._native as _native
from opscope.columns.codes import CompilationKind, EventKind, OriginsKnownFrom
from opscope.columns.names import Names
from opscope.columns.schema import COMPILATIONS, COMPILED_ORIGINS, COMPILED_SITES
from opscope.columns.table import Table
from opscope.recording.compiled.compilations import Compilation, finished_compilations, is_listening
from opscope.recording.compiled.generated_code import Site
from opscope.recording.compiled.graphs import (
    begin_listening,
    end_listening,
    loaded_files,
    sites_of,
    when_loaded,
)
from opscope.recording.compiled.origin import Origin
from opscope.recording.decoded import Decoded
from opscope.recording.listeners import Listener

GraphSites: TypeAlias = dict[str, tuple[str, list[Site]]]
"""By generated file: the name of its graph, and the calls of the graph."""

_SOURCE = "compiled code"
_CANNOT_LISTEN = "compilations: not available for this version of torch"


_noted: tuple[str, set[str]] = "", set()
"""File of a stream, and the generated files whose graphs it has."""


def note_sites(_: str = "") -> None:
    """Write the calls of loaded graphs to the running stream, in case the process is killed."""
    global _noted
    stream = _native.stream_state()[0]
    if stream != _noted[0]:
        _noted = stream, set()
    new = loaded_files() - _noted[1]
    if stream and new:
        _noted[1].update(new)
        GeneratedCode.write_note({"sites": sites_as_json(new)})


when_loaded.append(note_sites)


class LoadedSites:
    """Calls of all graphs loaded in this process, as text. Reads each file once."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._text = b""

    def text(self) -> bytes:
        """A line of JSON for each graph; graphs loaded since the last call come last."""
        new = loaded_files() - self._known
        for file, encoded in sites_as_json(new).items():
            self._text += json.dumps({file: encoded}).encode() + b"\n"
        self._known |= new
        return self._text


def read_sites(text: bytes) -> dict[str, Any]:
    """Read the text of :class:`LoadedSites`, whose last line may be truncated, as JSON."""
    whole, _, _ = text.rpartition(b"\n")
    found: dict[str, Any] = {}
    for line in whole.splitlines():
        found |= json.loads(line)
    return found


def sites_as_json(files: Iterable[str]) -> dict[str, list[Any]]:
    """Graph name and calls of each of these generated files that is loaded here, by file."""
    return {
        file: [graph, [_as_list(site) for site in sites]]
        for file, (graph, sites) in sites_of(files).items()
    }


def _as_list(site: Site) -> list[Any]:
    origins = [list(astuple(one)) for one in site.origins]
    return [site.line, site.callee, site.is_cpp, origins, int(site.known_from)]


def sites_from_json(encoded: Mapping[str, Any]) -> GraphSites:
    """Inverse of :func:`sites_as_json`."""
    return {file: (graph, list(map(_from_list, sites))) for file, (graph, sites) in encoded.items()}


def _from_list(encoded: list[Any]) -> Site:
    line, callee, is_cpp, origins, known_from = encoded
    made = tuple(Origin(*one) for one in origins)
    known = OriginsKnownFrom(known_from)
    return Site(line, callee, is_cpp, origins=made, known_from=known)


class GeneratedCode(Listener):
    """Records graphs and kernels, with the lines of the program that they come from.

    In a process that only decodes, :meth:`learn` supplies these facts.
    """

    def __init__(self) -> None:
        self._number = _native.new_number()
        self._compilations: list[Compilation] = []
        self._sites: GraphSites | None = None

    def prepare(self) -> None:
        """Note the graphs that the program has loaded."""
        note_sites()

    def begin(self) -> None:
        """Start recording graphs and kernels."""
        begin_listening(self._number)
        note_sites()  # another thread may have loaded one since

    def end(self) -> None:
        """Stop, unless another window wants them."""
        end_listening(self._number)

    def before_end(self) -> None:
        """Keep the compilations until now."""
        self._compilations = finished_compilations()

    def added_to(self, decoded: Decoded) -> Decoded:
        """Add the tables ``compiled_sites``, ``compiled_origins`` and ``compilations``."""
        return with_compilations(with_sites(decoded, self._sites), self._compilations)

    def known(self, whole: bool = True) -> dict[str, Any]:
        """Compilations, a list of columns each; ``whole``: also the calls of the loaded graphs."""
        known: dict[str, Any] = {"compilations": [list(astuple(c)) for c in self._compilations]}
        return {**known, "sites": sites_as_json(loaded_files())} if whole else known

    def learn(self, known: Any) -> None:
        """Take over compilations, and add graphs; those loaded here do not count any more."""
        if "compilations" in known:
            self._compilations = [
                Compilation(CompilationKind(kind), *rest) for kind, *rest in known["compilations"]
            ]
        self._sites = (self._sites or {}) | sites_from_json(known.get("sites", {}))


def with_sites(decoded: Decoded, known: GraphSites | None = None) -> Decoded:
    """Add the calls of generated files that ran; ``known`` None: of the graphs loaded here."""
    files = _generated_files(decoded, loaded_files() if known is None else known)
    if not files:
        return decoded
    found = sites_of(files) if known is None else known
    found = {file: found[file] for file in files if file in found}
    texts = _Texts(decoded.names)
    sites: list[tuple[Any, ...]] = []
    origins: list[tuple[Any, ...]] = []
    for file, row in files.items():
        graph, placed = found.get(file, ("", []))
        for one in placed:
            origins += _origin_rows(len(sites), one, texts)
            place = (row, one.line, texts.row(graph), texts.row(one.callee))
            sites.append((*place, one.is_cpp, int(one.known_from)))
    tables = {
        schema.name: Table(schema, _columns(schema.columns, rows))
        for schema, rows in ((COMPILED_SITES, sites), (COMPILED_ORIGINS, origins))
    }
    unknown = sum(1 for site in sites if site[-1] == OriginsKnownFrom.NOTHING)
    notes = (
        (_SOURCE, "places in generated code recorded", float(len(sites))),
        (_SOURCE, "of these without source lines", float(unknown)),
        (_SOURCE, "generated files that could not be read", float(len(files) - len(found))),
    )
    return replace(decoded.with_tables(**tables), names=texts.names).with_notes(notes)


def with_compilations(decoded: Decoded, compilations: Sequence[Compilation]) -> Decoded:
    """Add the compilations of torch.compile."""
    if not is_listening():
        decoded = decoded.with_notes(((_SOURCE, _CANNOT_LISTEN, 1.0),))
    if not compilations:
        return decoded
    texts = _Texts(decoded.names)
    rows = [
        tuple(texts.row(value) if isinstance(value, str) else value for value in astuple(one))
        for one in compilations
    ]
    table = Table(COMPILATIONS, _columns(COMPILATIONS.columns, rows))
    return replace(decoded.with_tables(compilations=table), names=texts.names)


def _generated_files(decoded: Decoded, known: Collection[str]) -> dict[str, int]:
    """Files whose graphs ran, with their rows in ``names``.

    Without events (when segments are merged): all files in ``known`` with a called function.
    """
    kinds, calls = decoded.events["kind"], decoded.tables["python_calls"]
    called = calls["frame"]
    if len(kinds):
        called = called[kinds[calls["event"]] == EventKind.COMPILED_GRAPH]
    frames = np.unique(called)
    rows = np.unique(decoded.tables["frames"]["file"][frames[frames >= 0]])
    files = {decoded.names[row]: row for row in rows.tolist() if row >= 0}
    return files if len(kinds) else {file: files[file] for file in files if file in known}


def _origin_rows(site: int, placed: Site, texts: _Texts) -> list[tuple[Any, ...]]:
    return [
        (
            site,
            texts.row(origin.node),
            texts.row(origin.operator),
            texts.row(origin.file),
            origin.line,
            texts.row(origin.function),
            texts.row(origin.module),
        )
        for origin in placed.origins
    ]


def _columns(columns: Any, rows: list[tuple[Any, ...]]) -> dict[str, Any]:
    by_column = zip(*rows, strict=True) if rows else ((),) * len(columns)
    return {
        column.name: np.array(values, dtype=column.dtype)
        for column, values in zip(columns, by_column, strict=True)
    }


class _Texts:
    """Rows for new texts, after the existing names; -1 for an empty text."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._rows: dict[str, int] = {}

    def row(self, text: str) -> int:
        return self._rows.setdefault(text, len(self._names) + len(self._rows)) if text else -1

    @property
    def names(self) -> Names:
        return self._names.followed_by(Names.from_strings(list(self._rows)))
