"""Options for what to record, made of the sources' own declarations."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from opscope.cli.parameters import group_of
from opscope.recording.sources import switches


@dataclass(frozen=True)
class RecordingSwitches:
    """A flag for each; the parameter is those options that were switched on."""

    heading: str = "What to record"

    def add_to(self, parser: argparse.ArgumentParser, parameter: inspect.Parameter) -> None:
        """Declare them to argparse."""
        for switch in switches():
            if switch.flag:
                group_of(parser, self.heading).add_argument(
                    switch.flag_name,
                    dest=parameter.name,
                    action="append_const",
                    const=switch.option,
                    help=switch.flag,
                )


RecordedOptions: TypeAlias = Annotated[Collection[str], RecordingSwitches()]
