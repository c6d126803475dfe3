"""``opscope completion``: commands and options at a press of the tab key."""

from __future__ import annotations

import argparse
from enum import Enum
from pathlib import Path
from typing import Annotated

import shtab

from opscope.cli.application import parser_of_all
from opscope.cli.parameters import Argument
from opscope.cli.shown.console import Output


class Shell(str, Enum):
    """Whose words to complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    TCSH = "tcsh"


def completion(
    shell: Annotated[Shell, Argument(metavar="bash|zsh|fish|tcsh", help="The shell.")],
) -> None:
    """Print what makes a shell complete opscope's commands and options.

    Write it to where the shell looks for such, again after an upgrade of opscope:

        opscope completion bash > ~/.local/share/bash-completion/completions/opscope
        opscope completion zsh > ~/.zfunc/_opscope  # with ~/.zfunc in $fpath
        opscope completion fish > ~/.config/fish/completions/opscope.fish
    """
    parser = parser_of_all()
    _complete_values(parser)
    Output().write(shtab.complete(parser, shell.value))


def _complete_values(parser: argparse.ArgumentParser) -> None:
    """Files where a path is wanted, and values as they are typed."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_values(command)
        elif action.choices:
            action.choices = [one.value for one in action.choices]
        elif action.type is Path or action.nargs == argparse.PARSER:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
