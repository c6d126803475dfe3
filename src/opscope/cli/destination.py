"""Where ``opscope run`` puts its files: checked before the program runs, never lost after it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from opscope.errors import UsageError


@dataclass(frozen=True)
class Destination:
    """Absolute paths, because the program may change the current folder.

    Attributes:
        trace: folder of the trace; with a schedule, the folder that holds one trace per cycle.
        chrome: Chrome trace file, if asked for; with a schedule, the cycle number is put into its
            name.
    """

    trace: Path
    chrome: Path | None = None

    def of_cycle(self, number: int) -> Destination:
        """Where the files of the ``number``-th recorded cycle go."""
        name = f"cycle-{number}"
        if self.chrome is None:
            return Destination(self.trace / name)
        stem, suffix = split_suffix(self.chrome)
        return Destination(self.trace / name, self.chrome.with_name(f"{stem}-{name}{suffix}"))

    def check(self) -> None:
        """Create the folders above, and make sure that files can be written into them.

        Raises:
            UsageError: they cannot, or something is in the way.
        """
        if self.trace.exists():
            raise UsageError(
                f"{str(self.trace)!r} already exists, and may hold a recording worth keeping. "
                "Choose another folder with --output, or remove this one first."
            )
        if self.chrome is not None and self.chrome.is_dir():
            raise UsageError(f"{str(self.chrome)!r} is a folder. Give --chrome a file name.")
        for path in filter(None, (self.trace, self.chrome)):
            check_writable_folder(path.parent)


def choose(output: Path | None, chrome: Path | None, program_name: str) -> Destination:
    """The paths asked for; without ``output`` a new folder in the current one."""
    trace = output if output is not None else _free_folder(program_name)
    # abspath rather than resolve: keep the name the user knows, symbolic links included.
    absolute = Path(os.path.abspath(trace))
    return Destination(absolute, None if chrome is None else Path(os.path.abspath(chrome)))


def _free_folder(program_name: str) -> Path:
    path, number = Path(f"{program_name}.opscope"), 2
    while path.exists():
        path, number = Path(f"{program_name}-{number}.opscope"), number + 1
    return path


def check_writable_folder(folder: Path) -> None:
    """Create ``folder`` if need be, and write a file into it to see that it works.

    Raises:
        UsageError: it does not work; the message has the system's reason.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"Nothing can be written to {str(folder)!r} ({error.strerror or error}). Choose a "
            "place you can write to; nothing was run."
        ) from error


def write_or_rescue(write: Callable[[Path], object], path: Path) -> tuple[Path, OSError | None]:
    """Call ``write(path)``; if the file system refuses, write to a new temporary folder instead.

    Returns:
        Where it was written, and what was wrong with the place asked for, if anything.

    Raises:
        OSError: the temporary folder is no better.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
        return path, None
    except OSError as refused:
        rescued = Path(tempfile.mkdtemp(prefix="opscope-")) / path.name
        write(rescued)
        return rescued, refused


def split_suffix(path: Path) -> tuple[str, str]:
    """Stem and suffix of a file name; ``.json.gz`` is one suffix."""
    name = path.name
    for suffix in (".json.gz", ".json"):
        if name.endswith(suffix):
            return name.removesuffix(suffix), suffix
    return path.stem, path.suffix
