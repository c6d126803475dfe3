"""``%load_ext opscope``: records a cell, and shows verdict, names and page below it.

The notebook contains the page (``srcdoc``), so a saved notebook shows it without kernel and server.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
import threading
from argparse import Namespace
from asyncio import CancelledError
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from html import escape
from types import CodeType, TracebackType
from typing import Any

import numpy as np

from opscope.api.trace import Trace
from opscope.base.cached_property import cached_property
from opscope.columns.names import Names
from opscope.columns.part import without
from opscope.columns.schema import TABLES
from opscope.columns.trace_data import TraceData
from opscope.errors import OpscopeError, UsageError
from opscope.findings.summary import Summary
from opscope.launch.program import execute, execute_awaiting
from opscope.readers.cell_progress import CellProgress
from opscope.report.page import report_html
from opscope.torch_api.profiler import profile

MOST_PAGE_BYTES = 8 << 20
"""Largest page, which the notebook's file has to contain."""

_FRAME = (
    '<iframe srcdoc="{}" sandbox="allow-scripts" title="opscope" '
    'style="width:100%;height:720px;border:1px solid #8884"></iframe>'
)
_KERNEL = ("ipykernel", "IPython", "zmq", "tornado", "jupyter_client", "debugpy", "prompt_toolkit",
           "_pydevd_bundle", "pydevd")  # fmt: skip
"""Packages whose threads serve the notebook, not the program."""

_OPTIONS: dict[str, tuple[str, ...]] = {
    "--why": ("record_shapes", "profile_memory", "with_stack", "with_modules"),
    "--memory": ("profile_memory",),
    "--shapes": ("record_shapes",),
    "--stack": ("with_stack",),
    "--modules": ("with_modules",),
}
"""Arguments of ``profile`` by option of the magic."""


class CellProfile:
    """Recording of a cell; the value of ``%%opscope``: the notebook shows it and keeps it as ``_``.

    In ``trace``, files of cells have the notebook's names: ``In [3]``.
    """

    def __init__(self, trace: Trace, has_page: bool = True) -> None:
        """``has_page``: show the page too."""
        self.trace, self.has_page = trace, has_page

    @cached_property
    def summary(self) -> Summary:
        """The verdict, and the names with most self time."""
        return self.trace.summary()

    def __repr__(self) -> str:
        return str(self.summary)

    def _repr_html_(self) -> str:
        return self.summary._repr_html_() + (self._page() if self.has_page else "")

    def _page(self) -> str:
        if self.trace.is_empty:
            return ""
        page = report_html(self.trace, title="cell")
        size = len(page.encode("utf-8"))
        if size > MOST_PAGE_BYTES:
            return (
                f"<p>The page has {size >> 20} MiB, too much for a notebook's file. Call "
                "_.trace.save(folder), then run opscope report.</p>"
            )
        return _FRAME.format(escape(page))


def load_ipython_extension(shell: Any) -> None:
    """Register ``%opscope`` and ``%%opscope``; IPython calls this for ``%load_ext opscope``."""

    def opscope(line: str, cell: str | None = None) -> Any:
        """Record a cell, or the statement after %opscope, and show why it is slow.

        %%opscope [--why] [--memory] [--shapes] [--stack] [--modules] [--no-page]

        --why records everything that findings need; --no-page shows only the verdict and the table.
        The result is in `_`: `_.trace` is the recording.
        """
        from IPython.core.error import UsageError as Shown  # IPython prints only its message

        try:
            args, statement = _parsed_line(line, cell is not None)
            return _record(shell, statement if cell is None else cell, args, cell is not None)
        except OpscopeError as error:
            raise Shown(str(error)) from None

    shell.register_magic_function(opscope, "line_cell", "opscope")
    shell.input_transformers_post.append(partial(_with_await, shell))
    CellProgress().register(shell)


_MAGIC = re.compile(r"get_ipython\(\)\.run_(?:cell|line)_magic\('opscope',.*", re.S)


def _with_await(shell: Any, lines: list[str]) -> list[str]:
    """Lines of a cell; the magic is awaited if the cell has ``await`` outside of functions."""

    def changed(call: re.Match[str]) -> str:
        return f"await {call[0]}" if _awaits(shell, call[0]) else call[0]

    return [_MAGIC.sub(changed, line) for line in lines]


def _awaits(shell: Any, call: str) -> bool:
    try:
        arguments = ast.parse(call).body[0].value.args  # type: ignore[attr-defined]
        _, line, *cell = (one.value for one in arguments)
        code = cell[0] if cell else _parsed_line(line, False)[1]
        return _is_async(_compiled(shell.transform_cell(code), ""))
    except (SyntaxError, ValueError, OpscopeError):  # raised again when the cell runs
        return False


def _parsed_line(line: str, is_cell: bool) -> tuple[Namespace, str]:
    options, rest = set(), line.strip()
    while rest.startswith("--"):
        option, _, rest = rest.partition(" ")
        if option not in (*_OPTIONS, "--no-page"):
            options_text = " ".join((*_OPTIONS, "--no-page"))
            raise UsageError(f"%opscope has no option {option}. There are: {options_text}.")
        options.add(option)
        rest = rest.strip()
    if is_cell and rest:
        raise UsageError(f"%%opscope takes options only, not {rest[:60]!r}. Put code below it.")
    if not is_cell and not rest:
        raise UsageError("There is nothing to record. Write a statement after %opscope.")
    switches = {name: True for option in options for name in _OPTIONS.get(option, ())}
    return Namespace(switches=switches, has_page="--no-page" not in options), rest


def _record(shell: Any, code: str, args: Namespace, is_cell: bool) -> Any:
    """Run and record code; returns the profile, or a coroutine if the code awaits."""
    # Line numbers count the line of the magic, as in the notebook.
    body = "\n" * is_cell + shell.transform_cell(code)
    cells = getattr(shell.compile, "_filename_map", {})
    file = shell.compile.cache(body, _number_of_cell(cells, shell.execution_count), code)
    try:
        compiled = _compiled(body, file)
    except SyntaxError as error:
        shell.showsyntaxerror(file)
        return _fail(shell, error)
    kernels, names = _threads_of_kernel(), shell.user_ns
    recording = profile(**args.switches)

    @contextmanager
    def recorded() -> Iterator[None]:
        try:
            with recording:
                yield
        except (Exception, KeyboardInterrupt, CancelledError) as error:
            shell.showtraceback((type(error), error, _from_cell(error, file)), tb_offset=0)
            _fail(shell, error)

    def shown() -> CellProfile:
        if (value := names.pop(_VALUE, None)) is not None:
            _show(value)
        trace = _without_kernel(recording.trace, kernels, file)
        return CellProfile(Trace.of(_with_names_of_cells(trace, cells)), args.has_page)

    async def awaited() -> CellProfile:
        with recorded():
            await execute_awaiting(compiled, names)
        return shown()

    if _is_async(compiled):
        return awaited()
    with recorded():
        execute(compiled, names)
    return shown()


def _fail(shell: Any, error: BaseException) -> None:
    """Mark the cell as failed, so that `Run All` stops here, as without the magic."""
    if (result := shell.displayhook.exec_result) is not None:
        result.error_in_exec = error


def _number_of_cell(cells: Mapping[str, int], default: int) -> int:
    """Number of the cell with this magic; IPython's own counter is ahead already."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename not in cells:
        frame = frame.f_back  # type: ignore[assignment]
    return default if frame is None else cells[frame.f_code.co_filename]


_VALUE = "__value_of_cell__"


def _compiled(body: str, file: str) -> CodeType:
    """Compile code that may await; it assigns the value of a last expression to ``_VALUE``."""
    tree = ast.parse(body, file)
    if (
        tree.body
        and isinstance(last := tree.body[-1], ast.Expr)
        and not body.rstrip().endswith(";")
    ):
        name = ast.Name(_VALUE, ast.Store())
        tree.body[-1] = ast.copy_location(ast.Assign([name], last.value), last)
        ast.fix_missing_locations(tree)
    code: CodeType = compile(tree, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return code


def _is_async(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _from_cell(error: BaseException, file: str) -> TracebackType | None:
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename != file:
        traceback = traceback.tb_next
    return traceback or error.__traceback__


def _show(value: Any) -> None:
    from IPython.display import display

    display(value)


def _threads_of_kernel() -> set[int]:
    ids = set()
    for thread in threading.enumerate():
        target = getattr(thread, "_target", None)
        modules = [type(thread).__module__, str(getattr(target, "__module__", ""))]
        if thread.native_id and any(place.partition(".")[0] in _KERNEL for place in modules):
            ids.add(thread.native_id)
    return ids


def _without_kernel(trace: TraceData, kernels: set[int], file: str) -> TraceData:
    """Remove the kernel's threads, and the kernel's functions that called the cell."""
    events, frames = trace.events, trace.table("frames")
    thread_ids = trace.table("threads")["system_thread_id"]
    is_caller = np.zeros(len(events), dtype=np.bool_)
    calls = trace.table("python_calls")
    is_cell = (frames["file"] == trace.names.find(file)) & (
        frames["function"] == trace.names.find("<module>")
    )
    cell = is_cell[calls["frame"]]
    # After each await, the kernel's event loop calls the cell's code again.
    callers = events["parent"][calls["event"][cell]]
    while (callers := np.unique(callers[callers >= 0])).size:
        is_caller[callers] = True
        callers = events["parent"][callers]
    is_kernel = np.isin(thread_ids, np.array(list(kernels), dtype=np.int64))
    return without(trace, is_caller, is_kernel) if is_caller.any() or is_kernel.any() else trace


def _with_names_of_cells(trace: TraceData, cells: Mapping[str, int]) -> TraceData:
    """Rename files of cells to ``In [3]``, also in the names of functions."""
    cell_names = {os.path.basename(file): f"In [{count}]" for file, count in cells.items()}
    pattern = re.compile(rf"(?:[^\s(]*/)?({'|'.join(map(re.escape, cell_names))})")
    texts = [pattern.sub(lambda match: cell_names[match[1]], text) for text in trace.names]
    return type(trace)({name: trace.table(name) for name in TABLES}, Names.from_strings(texts))
