"""Output paths of ``opscope run``: checks before the program starts, fallbacks after it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from opscope.base.address import refuse_address
from opscope.errors import OpscopeError, UsageError
from opscope.recording.facts.process_facts import launched_rank
from opscope.recording.streams.trace_request import CHROME_SUFFIXES, Destination, with_part
from opscope.storage.manifest import foreign_entry


def check(destination: Destination) -> None:
    """Create the parent folders, and check that files can be written to them."""
    if destination.trace.exists():
        _check_replaceable(destination.trace)
    for option, file in (("--chrome", destination.chrome), ("--report", destination.report)):
        if file is not None and file.is_dir():
            raise UsageError(f"{file} is a folder. {option} needs a file name.")
    _check_writable(destination.trace if destination.trace.exists() else destination.trace.parent)
    for file in filter(None, (destination.chrome, destination.report)):
        _check_writable(file.parent)


def choose(
    output: Path | None, chrome: Path | None, program_name: str, report: Path | None = None
) -> Destination:
    """The output paths; the default trace folder is a new one in the current folder.

    The ranks of a job share the trace folder. Names of other files get the rank.
    """
    if chrome is not None and not chrome.name.endswith(CHROME_SUFFIXES):
        suffixes = " or ".join(reversed(CHROME_SUFFIXES))
        raise UsageError(f"--chrome {str(chrome)!r} should end in {suffixes}.")
    if report is not None and not report.name.endswith(".html"):
        raise UsageError(f"--report {str(report)!r} should end in .html.")
    files, rank = [chrome, report], launched_rank()
    if rank is not None:
        files = [file and with_part(file, f"rank-{rank}") for file in files]
    for path in filter(None, (output, chrome, report)):
        refuse_address(path)
    trace = output if output is not None else free_folder(Path(f"{program_name}.opscope"))
    # abspath, not resolve: messages must show the user's name, with symbolic links.
    absolute = [file and Path(os.path.abspath(file)) for file in files]
    return Destination(Path(os.path.abspath(trace)), *absolute)


def write_or_rescue(
    write: Callable[[Path], object], path: Path
) -> tuple[Path, OpscopeError | OSError | None]:
    """Call ``write(path)``; if it fails, write to a new temporary folder.

    Returns:
        The path that was written, and the error of ``path``, if any.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path)
        return path, None
    except (OpscopeError, OSError) as failure:
        try:
            return _rescue(write, path.name), failure
        except (OpscopeError, OSError):
            raise failure from None


def reason(error: BaseException) -> str:
    """Reason for an error, as part of a sentence."""
    if isinstance(error, MemoryError):  # its text is a function's name at most
        return "there is not enough memory. Free some memory, raise the limit, or record less."
    return str(error)


def _rescue(write: Callable[[Path], object], name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="opscope-"))
    try:
        write(folder / name)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder / name


def free_folder(wanted: Path) -> Path:
    """``wanted``, with a number if it exists."""
    path, number, suffix = wanted, 2, wanted.suffix if wanted.suffix == ".opscope" else ""
    while path.exists():
        path = wanted.with_name(f"{wanted.name.removesuffix(suffix)}-{number}{suffix}")
        number += 1
    return path


def _check_replaceable(folder: Path) -> None:
    """Raise UsageError if ``folder`` contains other files than those of a trace."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file, but a trace is a folder. Change --output.")
    if foreign := foreign_entry(folder):
        raise UsageError(
            f"{folder} contains {foreign}, which does not belong to a trace, so the program was "
            "not started. Set --output to a new folder, or to a trace that may be replaced."
        )


def _check_writable(folder: Path) -> None:
    """Raise UsageError if a file cannot be written; permissions alone are not sufficient."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"{folder} is not writable ({error.strerror or error}), so the program was not "
            "started. Choose a folder that you may write to."
        ) from error
