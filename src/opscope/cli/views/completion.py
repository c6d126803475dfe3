"""Shell completion scripts."""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

from opscope.cli.application import parser_of_all

_HAS_PROGRAM = (
    '"$current_action_nargs" = "A..." && $word_index -gt $current_action_args_start_index'
)
"""Bash condition: the program of ``opscope run`` was typed, so later options belong to it."""
_TAKES_OPTION = 'if [[ " ${current_option_strings[@]} " == *" $this_word "* ]]; then'
_OFFERS_OPTIONS = 'if [[ $pos_only = 0 && "$completing_word" == -* &&'


def completion(shell: str) -> str:
    """Completion script for bash, zsh, fish or tcsh."""
    parser = parser_of_all()
    _complete_values(parser)
    script = shtab.complete(parser, shell)
    return script.replace(
        _TAKES_OPTION, _TAKES_OPTION.replace("; then", f" && ! [[ {_HAS_PROGRAM} ]]; then")
    ).replace(_OFFERS_OPTIONS, _OFFERS_OPTIONS.replace("[[ ", f"[[ ! ( {_HAS_PROGRAM} ) && "))


def _complete_values(parser: argparse.ArgumentParser) -> None:
    """Complete files for path arguments, and texts of enumeration values."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _complete_values(command)
        elif action.choices:
            action.choices = [one.value for one in action.choices]
        elif action.type is Path or action.nargs == argparse.PARSER:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
