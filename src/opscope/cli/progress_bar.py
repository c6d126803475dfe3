"""A bar that moves while something is going on, and shows how far it is once that is told."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from opscope.progress import listening


@contextlib.contextmanager
def progress_bar(what: str, console: Console) -> Iterator[None]:
    """Until the work tells how far it is, the bar only moves; it is gone afterwards."""
    columns = (TextColumn("{task.description}"), BarColumn(), _Share(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(escape(what), total=None)
        with listening(lambda share: bar.update(task, total=1.0, completed=share)):
            yield


class _Share(ProgressColumn):
    """How much is done, where that is known."""

    def render(self, task: Task) -> Text:
        return Text("" if task.total is None else f"{task.percentage:3.0f}%")
