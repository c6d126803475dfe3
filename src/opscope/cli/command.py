"""A command: its function and what it takes; and how words of the command line become a call."""

from __future__ import annotations

import difflib
import inspect
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from opscope.cli.parameters import Parameter, parameters_of
from opscope.errors import UsageError

HELP = ("-h", "--help")


class HelpWanted(Exception):
    """One of the words asks for help."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """One subcommand.

    Attributes:
        name: what it is called by.
        function: what it runs; its docstring is its help.
        parameters: of the function.
    """

    name: str
    function: Callable[..., Any]
    parameters: tuple[Parameter, ...]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Command:
        """The command that ``function`` is."""
        return cls(name=function.__name__, function=function, parameters=parameters_of(function))

    @property
    def hands_on(self) -> bool:
        """All that follows the first argument is another program's, and is left alone."""
        return any(one.takes_rest for one in self.parameters)

    @property
    def help(self) -> str:
        """Its docstring."""
        return inspect.getdoc(self.function) or ""

    @property
    def arguments(self) -> list[Parameter]:
        """What is told by its place."""
        return [one for one in self.parameters if not one.names]

    @property
    def options(self) -> list[Parameter]:
        """What has a name."""
        return [one for one in self.parameters if one.names]

    def call_with(self, words: Sequence[str]) -> Any:
        """Run the function with what ``words`` say, and return what it returns.

        Raises:
            HelpWanted: they ask for help.
            UsageError: they make no sense, or the function says so.
        """
        try:
            given = self._read(words)
        except UsageError as error:
            raise UsageError(f"{error} See `opscope {self.name} --help`.") from None
        return self.function(**given)

    def _read(self, words: Sequence[str]) -> dict[str, Any]:
        given: dict[str, Any] = {one.name: one.default for one in self.parameters}
        in_place: list[str] = []
        left = _Words(words)
        for word in left:
            if word == "--" or not _is_option(word):
                in_place += left if word == "--" else [word]
                if self.hands_on:
                    in_place += left
            elif word in HELP:
                raise HelpWanted
            else:
                option, value = self._option(word, left)
                given[option.name] = (
                    [*(given[option.name] or ()), *value] if option.takes_several else value
                )
        for option in self.options:
            if option.is_required and given[option.name] is None:
                raise UsageError(f"{option.names[0]} is missing: {spelled(option)}.")
        return given | self._placed(in_place)

    def _option(self, word: str, left: _Words) -> tuple[Parameter, Any]:
        """The parameter that an option sets, and to what; takes its value off ``left``."""
        spelled, equals, value = word.partition("=")
        if not word.startswith("--") and len(word) > 2:  # -oFILE
            spelled, equals, value = word[:2], "=", word[2:]
        for option in self.options:
            if spelled in option.names and not option.is_flag:
                values = [value if equals else _next(left, option)]
                if option.takes_several:
                    return option, [option.read(one) for one in (*values, *left.up_to_an_option())]
                return option, option.read(values[0])
            if option.is_flag and spelled in (*option.names, option.off):
                if equals:
                    raise UsageError(f"{spelled} is on when it is there, and takes no value.")
                return option, spelled != option.off
        raise UsageError(f"There is no option {spelled}.{self._meant(spelled)}")

    def _meant(self, spelled: str) -> str:
        known = [name for option in self.options for name in (*option.names, option.off) if name]
        close = difflib.get_close_matches(spelled, [*known, *HELP], n=1)
        return f" Did you mean {close[0]}?" if close else ""

    def _placed(self, words: list[str]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        left = list(words)
        # Where one that may be left out stands before one that may not, the last words are whose
        # place has to be filled.
        spare = len(left) - sum(one.is_required for one in self.arguments)
        for one in self.arguments:
            if one.takes_rest:
                given[one.name], left = left, []
            elif one.takes_several and left:
                given[one.name], left = [one.read(word) for word in left], []
            elif one.is_required or spare > 0:
                if not left:
                    raise UsageError(f"{one.metavar} is missing.")
                given[one.name] = one.read(left.pop(0))
                spare -= not one.is_required
        if left:
            raise UsageError(f"{left[0]!r} is one argument too many.")
        return given


class _Words:
    """The words of a command line that have not been read yet."""

    def __init__(self, words: Sequence[str]) -> None:
        self._left = deque(words)

    def __iter__(self) -> Iterator[str]:
        while self._left:
            yield self._left.popleft()

    def up_to_an_option(self) -> Iterator[str]:
        """Those before the next option."""
        while self._left and not _is_option(self._left[0]):
            yield self._left.popleft()


def spelled(option: Parameter) -> str:
    """``-o, --output DIR``: all spellings of an option, short ones first, and its value."""
    names = sorted(filter(None, (*option.names, option.off)), key=lambda name: name[:2] == "--")
    return ", ".join(names) + ("" if option.is_flag else f" {option.metavar}")


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _next(left: _Words, option: Parameter) -> str:
    for word in left:
        return word
    raise UsageError(f"{option.names[0]} needs a value: {option.names[0]} {option.metavar}.")
