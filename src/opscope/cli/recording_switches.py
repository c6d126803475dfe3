"""Switches for what to record, made of the sources' own declarations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

from opscope.cli.parameters import Option
from opscope.recording.sources import Switch, switches


def with_recording_switches(
    parameter: str, panel: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator for commands: puts the switches where ``parameter`` stands.

    The command is given, as ``parameter``, the options that were switched on.

    Args:
        parameter: name of one of the command's parameters.
        panel: heading of the switches in the command's help.
    """
    offered = [switch for switch in switches() if switch.flag]
    added = [
        inspect.Parameter(
            _name(switch),
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=False,
            annotation=Annotated[
                bool,
                Option(names=(switch.flag_name,), help=switch.flag, heading=panel),
            ],
        )
        for switch in offered
    ]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(command, eval_str=True)
        parameters = list(signature.parameters.values())
        place = list(signature.parameters).index(parameter)
        parameters[place : place + 1] = added

        @functools.wraps(command)
        def switched(**given: Any) -> Any:
            on = frozenset(switch.option for switch in offered if given.pop(_name(switch)))
            return command(**given, **{parameter: on})

        vars(switched)["__signature__"] = signature.replace(parameters=parameters)
        switched.__annotations__ = {p.name: p.annotation for p in parameters}
        return switched

    return decorate


def _name(switch: Switch) -> str:
    return switch.flag_name.removeprefix("--").replace("-", "_")
