"""The process that some commands ask: the same argument everywhere."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from opscope.cli.parameters import Argument

ProcessArgument: TypeAlias = Annotated[
    int, Argument(metavar="PID", help="Number of the process; `opscope ps` lists those there are.")
]
