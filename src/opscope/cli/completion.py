"""``opscope completion``: commands and options at a press of the tab key."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Annotated

from opscope.cli.application import COMMANDS, command_called
from opscope.cli.command import HELP, Command
from opscope.cli.console import Output
from opscope.cli.parameters import Argument

_BASH = """\
_opscope() {
    local IFS=$'\\n'
    COMPREPLY=($(opscope completion words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _opscope opscope
"""
_ZSH = """\
_opscope() {
    local -a found
    found=("${(@f)$(opscope completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    [[ -n "$found" ]] && compadd -- $found || _files
}
compdef _opscope opscope
"""
_FISH = """\
function _opscope
    set -l words (commandline -opc) (commandline -ct)
    opscope completion words $words[2..] 2>/dev/null
end
complete -c opscope -a '(_opscope)'
"""


class Shell(str, Enum):
    """Whose words to complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    WORDS = "words"


_SCRIPTS = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


def completion(
    shell: Annotated[Shell, Argument(metavar="bash|zsh|fish", help="The shell.")],
    words: Annotated[
        list[str] | None,
        Argument(metavar="WORDS...", help="With `words` for SHELL: what was typed so far."),
    ] = None,
) -> None:
    """Print what makes a shell complete opscope's commands and options.

    For bash, put this line into ~/.bashrc; for zsh, the same with zsh into ~/.zshrc:

        eval "$(opscope completion bash)"

    For fish: opscope completion fish > ~/.config/fish/completions/opscope.fish
    """
    if shell is Shell.WORDS:
        Output().write("".join(f"{word}\n" for word in candidates(words or [""])))
    else:
        Output().write(_SCRIPTS[shell])


def candidates(words: list[str]) -> list[str]:
    """What the last of ``words`` may become; nothing where the shell should offer files."""
    *before, unfinished = words
    if not before:
        return _beginning(unfinished, COMMANDS)
    if before[0] not in COMMANDS:
        return []
    command = command_called(before[0])
    if command.hands_on and not _before_program(command, before[1:]):
        return []
    for option in command.options:
        if len(before) > 1 and before[-1] in option.names and not option.is_flag:
            return _beginning(unfinished, option.choices)
    if not unfinished.startswith("-"):
        return []
    names = [name for o in command.options for name in (*o.names, o.off) if name]
    return _beginning(unfinished, [name for name in (*names, *HELP) if name.startswith("--")])


def _before_program(command: Command, words: list[str]) -> bool:
    """Whether only options stand before the word that is typed."""
    takes_value = {name for o in command.options if not o.is_flag for name in o.names}
    left = iter(words)
    for word in left:
        if not word.startswith("-"):
            return False
        if word in takes_value:
            next(left, None)
    return True


def _beginning(unfinished: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(unfinished)]
