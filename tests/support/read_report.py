"""Take a report page apart: its data, and what a browser would see as markup."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import numpy as np


@dataclass
class Page(HTMLParser):
    """Tags in order with their attributes, and the text of every script and style."""

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)
    title: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag in ("script", "style"):
            self.texts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style"):
            attributes, text = self.texts[-1]
            self.texts[-1] = (attributes, text + data)
        elif self._inside == "title":
            self.title += data

    def text(self, id_: str) -> str:
        """The text of the element with an id."""
        return next(text for attributes, text in self.texts if attributes.get("id") == id_)


def read_page(html: str) -> Page:
    """Parse a page."""
    page = Page()
    page.feed(html)
    page.close()
    return page


@dataclass
class Report:
    """The data of a page, spans with absolute times."""

    data: dict[str, Any]
    columns: dict[str, np.ndarray]

    @property
    def spans(self) -> list[tuple[str, int, int, int]]:
        """(name, start, end, line) of every span, in the order of the page."""
        section = self.data["spans"]
        found = []
        for line, (begin, end) in enumerate(
            zip(section["lineStarts"][:-1], section["lineStarts"][1:], strict=True)
        ):
            starts = np.cumsum(self.columns["start"][begin:end])
            for i, start in zip(range(begin, end), starts.tolist(), strict=True):
                name = section["labels"]["text"][self.columns["label"][i]]
                found.append((name, start, start + int(self.columns["duration"][i]), line))
        return found


def read_report(html: str) -> Report:
    """The data in a page."""
    page = read_page(html)
    data = json.loads(page.text("opscope-report"))
    return Report(data, unpack(page.text("opscope-columns"), data["columns"]))


def unpack(text: str, directory: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """What data/unpack.ts does."""
    content = zlib.decompress(base64.b64decode(text))
    columns, offset = {}, 0
    for entry in directory:
        size = entry["count"] * entry["planes"]
        planes = np.frombuffer(content[offset : offset + size], dtype=np.uint8)
        planes = planes.reshape(entry["planes"], entry["count"]).astype(np.int64)
        columns[entry["name"]] = sum(
            (plane << 8 * i for i, plane in enumerate(planes)), np.zeros(entry["count"], np.int64)
        )
        offset += size
    assert offset == len(content)
    return columns


def own_times_of_the_page(report: Any) -> dict[str, int]:
    """Self time by name in the page's period, as its program computes it from spans alone."""
    period, moved = report.data["period"], report.data["spans"]["moved"]
    others = zip(moved["until"], moved["around"], strict=True)
    own_until = dict(zip(moved["span"], others, strict=True))
    own: dict[str, int] = {}
    spans, open_, last = report.spans, [], -1
    for number, (name, start, end, line) in enumerate(spans):
        if line != last:
            open_, last = [], line
        while open_ and open_[-1][1] <= start:
            open_.pop()
        until, around = own_until.get(number, (end, open_[-1][0] if open_ else -1))
        inside = max(min(until, period["to"]) - max(start, period["from"]), 0)
        own[name] = own.get(name, 0) + inside
        if around >= 0:
            outer = spans[around][0]
            own[outer] = own.get(outer, 0) - inside
        open_.append((number, end))
    return own
