"""The parts of a trace folder: one per process, named by its rank or else by its process id."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from opscope.base.input_file import is_folder, unreadable
from opscope.errors import UsageError

RANK, PROCESS = "rank", "process"
_FOLDER = re.compile(rf"({RANK}|{PROCESS})=(\d{{1,9}})")
_CYCLE = re.compile(r"cycle-\d{1,9}")
_MAX_NAMES, _MAX_RANGES = 20, 8
_MAX_NUMBER = {RANK: 99_999, PROCESS: 999_999_999}


@dataclass(frozen=True, order=True)
class Partition:
    """One process of a trace folder.

    Attributes:
        kind: ``rank`` of a distributed job, or ``process`` without a rank.
        number: rank or process id.
    """

    kind: str
    number: int

    def __post_init__(self) -> None:
        if not 0 <= self.number <= _MAX_NUMBER[self.kind]:
            raise UsageError(
                f"{self.kind} is {self.number}. Use a number from 0 to {_MAX_NUMBER[self.kind]}."
            )

    @property
    def folder_name(self) -> str:
        """Name of the part's folder in the trace folder."""
        return f"{self.kind}={self.number:05d}"

    @property
    def option(self) -> str:
        """Command-line option that chooses the part."""
        return f"--{self.kind} {self.number}"

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


def chosen_partition(rank: int | None, process: int | None = None) -> Partition | None:
    """The part of these options; None without any."""
    if rank is not None and process is not None:
        raise UsageError("--rank and --process exclude each other. Use only one of them.")
    if rank is not None:
        return Partition(RANK, rank)
    return None if process is None else Partition(PROCESS, process)


def partition_folders(path: Path) -> dict[Partition, Path]:
    """The folders of parts in ``path``, in their order; empty if there are none."""
    if not is_folder(path):
        return {}
    parts = {}
    try:
        with os.scandir(path) as entries:
            folders = [entry for entry in entries if _FOLDER.fullmatch(entry.name)]
        for entry in sorted(folders, key=lambda entry: entry.name):
            match = _FOLDER.fullmatch(entry.name)
            if match and entry.is_dir():
                parts[Partition(match[1], int(match[2]))] = path / entry.name
    except OSError as error:
        raise unreadable(path, error) from error
    return {part: parts[part] for part in in_order(parts)}


def part_of_folder(folder: Path) -> Partition | None:
    """The part of a folder by its name; None for other names."""
    match = _FOLDER.fullmatch(folder.name)
    return Partition(match[1], int(match[2])) if match else None


def cycle_folders(folder: Path) -> list[Path]:
    """Folders of a schedule's cycles, in order, each a trace; empty if unreadable."""
    candidates = [path for path in folder.glob("cycle-*") if _CYCLE.fullmatch(path.name)]
    folders = [path for path in candidates if not path.is_symlink()]  # links may lead outside
    return sorted(folders, key=lambda path: int(path.name.removeprefix("cycle-")))


def choose_part(path: Path, part: Partition | None) -> Path:
    """The folder of a part; ``path`` itself if it has no parts."""
    folders = partition_folders(path)
    if not folders:
        return path
    if part is None and len(folders) == 1:
        return next(iter(folders.values()))
    if part is None:
        raise several_parts(path, folders)
    if part not in folders:
        raise UsageError(f"{path} has no {part}. It contains: {listed(folders)}.")
    return folders[part]


def several_parts(path: Path, parts: Iterable[Partition]) -> UsageError:
    """Error for several parts in a folder or file without a choice."""
    parts = in_order(parts)
    kinds = "ranks" if all(part.kind == RANK for part in parts) else "processes"
    return UsageError(
        f"{path} holds several {kinds} ({listed(parts)}). Choose one: {parts[0].option}, or "
        f"load(path, {parts[0].kind}={parts[0].number})."
    )


def listed(parts: Iterable[Partition]) -> str:
    """Numbers of the parts: ``0, 1, process 1234``."""
    ordered = in_order(parts)
    texts = [str(part.number) if part.kind == RANK else str(part) for part in ordered]
    hidden = len(texts) - _MAX_NAMES
    return ", ".join(texts[:_MAX_NAMES]) + (f" and {hidden} more" if hidden > 0 else "")


def in_order(parts: Iterable[Partition]) -> list[Partition]:
    """Ranks by number, then processes by id."""
    return sorted(parts, key=lambda part: (part.kind != RANK, part.number))


def parts_text(chosen: Sequence[Partition], among: int) -> str:
    """``ranks 0-3, 7``, ``rank 3 and process 410``; ``all 8 processes`` if ``among`` is 8."""
    if len(chosen) == among and among > 1:
        return f"all {among} processes"
    ranks = sorted(part.number for part in chosen if part.kind == RANK)
    others = [part for part in chosen if part.kind != RANK]
    named = [f"rank{'s' if len(ranks) > 1 else ''} {ranges_text(ranks)}"] if ranks else []
    return " and ".join([*named, listed(others)] if others else named)


def ranges_text(ranks: list[int]) -> str:
    """``1, 3-7``: consecutive ranks as a range."""
    rank_set = set(ranks)
    begins = [rank for rank in ranks if rank - 1 not in rank_set]
    ends = [rank for rank in ranks if rank + 1 not in rank_set]
    spans = zip(begins, ends, strict=True)
    named = [f"{a}" if a == b else f"{a}-{b}" for a, b in islice(spans, _MAX_RANGES)]
    return ", ".join(named + ["..."] * (len(ends) > _MAX_RANGES))


def or_others(why: str, part: Partition, parts: Iterable[Partition]) -> str:
    """Sentence ``why`` with advice to choose the other ranks."""
    others = ranges_text(sorted(one.number for one in parts if one.kind == RANK and one != part))
    if not others:
        return why
    return (
        f"{why} Or choose the other ranks: --rank {others.replace(' ', '')}, or "
        "opscope.Job(path, ranks)."
    )
