"""``%load_ext opscope``: record a cell, and show the verdict, the names and the page below it.

The page is in the notebook itself (``srcdoc``), so that a saved notebook shows it without a kernel
and without a server.
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
"""Of a page in a notebook, which keeps it in its file."""

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
"""What each switches on."""


class CellProfile:
    """Recording of a cell; the value of ``%%opscope``, so the notebook shows it and ``_`` holds it.

    Attributes:
        trace: the recording, with lines of cells named as the notebook names them: ``In [3]``.
        has_page: whether the page is shown as well.
    """

    def __init__(self, trace: Trace, has_page: bool = True) -> None:
        self.trace, self.has_page = trace, has_page

    @cached_property
    def summary(self) -> Summary:
        """The verdict, and names with the most time of their own."""
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
                f"<p>The page has {size >> 20} MiB, too many for a notebook's file: "
                "_.trace.save(folder), then opscope report.</p>"
            )
        return _FRAME.format(escape(page))


def load_ipython_extension(shell: Any) -> None:
    """Register ``%opscope`` and ``%%opscope``; IPython calls this for ``%load_ext opscope``."""

    def opscope(line: str, cell: str | None = None) -> Any:
        """Record a cell, or the statement after %opscope, and show why it is slow.

        %%opscope [--why] [--memory] [--shapes] [--stack] [--modules] [--no-page]

        --why records everything that findings need; --no-page shows the verdict and the table only.
        The result is in `_`: `_.trace` is the recording.
        """
        from IPython.core.error import UsageError as Shown  # of which its message alone is shown

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
    """Lines of a cell with the magic awaited if its code awaits outside of functions."""

    def changed(call: re.Match[str]) -> str:
        return f"await {call[0]}" if _awaits(shell, call[0]) else call[0]

    return [_MAGIC.sub(changed, line) for line in lines]


def _awaits(shell: Any, call: str) -> bool:
    try:
        given = ast.parse(call).body[0].value.args  # type: ignore[attr-defined]
        _, line, *cell = (one.value for one in given)
        code = cell[0] if cell else _parsed_line(line, False)[1]
        return _is_async(_compiled(shell.transform_cell(code), ""))
    except (SyntaxError, ValueError, OpscopeError):  # an error of the cell when it runs
        return False


def _parsed_line(line: str, is_cell: bool) -> tuple[Namespace, str]:
    """The options at the beginning of the line, and what follows them."""
    options, rest = set(), line.strip()
    while rest.startswith("--"):
        option, _, rest = rest.partition(" ")
        if option not in (*_OPTIONS, "--no-page"):
            known = " ".join((*_OPTIONS, "--no-page"))
            raise UsageError(f"%opscope has no option {option}. There are: {known}.")
        options.add(option)
        rest = rest.strip()
    if is_cell and rest:
        raise UsageError(f"%%opscope takes options only, not {rest[:60]!r}. Put code below it.")
    if not is_cell and not rest:
        raise UsageError("There is nothing to record: %opscope is followed by a statement.")
    switches = {name: True for option in options for name in _OPTIONS.get(option, ())}
    return Namespace(switches=switches, has_page="--no-page" not in options), rest


def _record(shell: Any, code: str, args: Namespace, is_cell: bool) -> Any:
    """The profile; of code that awaits outside of functions a coroutine that returns it."""
    # The line of the magic counts, as it does where the notebook shows the cell.
    body = "\n" * is_cell + shell.transform_cell(code)
    cells = getattr(shell.compile, "_filename_map", {})
    file = shell.compile.cache(body, _number_of_cell(cells, shell.execution_count), code)
    try:
        ready = _compiled(body, file)
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
            await execute_awaiting(ready, names)
        return shown()

    if _is_async(ready):
        return awaited()
    with recorded():
        execute(ready, names)
    return shown()


def _fail(shell: Any, error: BaseException) -> None:
    """Have the cell count as failed, so that those after it do not run, as without the magic."""
    if (result := shell.displayhook.exec_result) is not None:
        result.error_in_exec = error


def _number_of_cell(cells: Mapping[str, int], otherwise: int) -> int:
    """Number of the cell that this magic is in: IPython has already counted on."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename not in cells:
        frame = frame.f_back  # type: ignore[assignment]
    return otherwise if frame is None else cells[frame.f_code.co_filename]


_VALUE = "__value_of_cell__"


def _compiled(body: str, file: str) -> CodeType:
    """The code, which may await; the value of an expression at its end is in ``_VALUE`` then."""
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
    """The traceback from the cell on."""
    place = error.__traceback__
    while place is not None and place.tb_frame.f_code.co_filename != file:
        place = place.tb_next
    return place or error.__traceback__


def _show(value: Any) -> None:
    from IPython.display import display

    display(value)


def _threads_of_kernel() -> set[int]:
    """Their numbers in the system."""
    found = set()
    for thread in threading.enumerate():
        target = getattr(thread, "_target", None)
        places = [type(thread).__module__, str(getattr(target, "__module__", ""))]
        if thread.native_id and any(place.partition(".")[0] in _KERNEL for place in places):
            found.add(thread.native_id)
    return found


def _without_kernel(trace: TraceData, kernels: set[int], file: str) -> TraceData:
    """Without the kernel's threads, and the functions of it that the cell ran in."""
    events, frames = trace.events, trace.table("frames")
    numbers = trace.table("threads")["system_thread_id"]
    around = np.zeros(len(events), dtype=np.bool_)
    calls = trace.table("python_calls")
    is_cell = (frames["file"] == trace.names.find(file)) & (
        frames["function"] == trace.names.find("<module>")
    )
    cell = is_cell[calls["frame"]]
    # The cell's own code is called again after each await, by the kernel's event loop.
    own = events["parent"][calls["event"][cell]]
    while (own := np.unique(own[own >= 0])).size:
        around[own] = True
        own = events["parent"][own]
    of_kernel = np.isin(numbers, np.array(list(kernels), dtype=np.int64))
    return without(trace, around, of_kernel) if around.any() or of_kernel.any() else trace


def _with_names_of_cells(trace: TraceData, cells: Mapping[str, int]) -> TraceData:
    """Files of cells are called ``In [3]``, also in the names of functions."""
    called = {os.path.basename(file): f"In [{count}]" for file, count in cells.items()}
    among = re.compile(rf"(?:[^\s(]*/)?({'|'.join(map(re.escape, called))})")
    texts = [among.sub(lambda match: called[match[1]], text) for text in trace.names]
    return type(trace)({name: trace.table(name) for name in TABLES}, Names.from_strings(texts))
