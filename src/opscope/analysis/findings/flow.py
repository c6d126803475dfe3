"""Which statements of a function can run between two of its lines, after its source."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

_END = -1
"""The step that follows the last one of a function."""


@dataclass(frozen=True, eq=False)
class Step:
    """A statement, without the statements inside of it.

    Attributes:
        statement: any.
        parts: what it evaluates itself.
        is_exit: it is the end of a ``with``, whose line Python says again there.
    """

    statement: ast.stmt
    parts: tuple[ast.expr | ast.stmt, ...]
    is_exit: bool = False

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.statement.lineno

    def is_at(self, line: int) -> bool:
        """Whether it evaluates something at a line."""
        return line == self.line or any(
            part.lineno <= line <= (part.end_lineno or part.lineno) for part in self.parts
        )

    def is_around(self, line: int) -> bool:
        """Whether a line is of it or of a statement inside of it."""
        return self.line <= line <= (self.statement.end_lineno or self.line)


@dataclass(frozen=True)
class _Ways:
    """Where statements that jump lead to: steps."""

    to_return: tuple[int, ...] = (_END,)
    to_break: tuple[int, ...] = ()
    to_continue: tuple[int, ...] = ()
    to_raise: tuple[int, ...] = ()
    """Nothing catches it: a function that ends so is not what a program does again and again."""


class Flow:
    """The statements of a function, and which can follow which."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.steps: list[Step] = []
        self._next: list[tuple[int, ...]] = []
        self._entry = self._block(body, _END, _Ways())

    def at(self, line: int) -> list[int]:
        """The steps at a line."""
        return [number for number, step in enumerate(self.steps) if step.is_at(line)]

    def between(self, before: int, after: int) -> list[Step]:
        """What can run after a line and before another; -1 for the function's begin and its end.

        In the order that it runs in, as far as that is the order of lines.
        """
        begins = self.at(before) if before >= 0 else []
        ends = self.at(after) if after >= 0 else [_END]
        if (before >= 0 and not begins) or not ends:
            return []
        aside = {*begins, *ends}
        leading = self._reached(ends, self._turned_round(), aside)
        # A ``with`` that was left says the line that it was entered at.
        left = [one for one in begins if self.steps[one].is_exit]
        if any(leading & {*self._next[one]} or {*ends} & {*self._next[one]} for one in left):
            begins = left
        forward = dict(enumerate(self._next))
        found = leading & (
            self._reached(begins, forward, aside)
            if before >= 0
            else self._reached([self._entry], forward, aside) | ({self._entry} - aside)
        )
        steps = [self.steps[one] for one in found if one != _END]
        return sorted(steps, key=lambda step: (step.line <= before, step.line))

    def _turned_round(self) -> dict[int, list[int]]:
        turned: dict[int, list[int]] = {}
        for number, following in enumerate(self._next):
            for one in following:
                turned.setdefault(one, []).append(number)
        return turned

    @staticmethod
    def _reached(
        begins: Iterable[int], ways: Mapping[int, Iterable[int]], aside: Collection[int]
    ) -> set[int]:
        """What is reached from some steps without passing any of those left aside."""
        found: set[int] = set()
        waiting = [*begins]
        while waiting:
            new = {*ways.get(waiting.pop(), ())}.difference(found, aside)
            found |= new
            waiting += new
        return found

    def _add(self, step: Step, following: tuple[int, ...]) -> int:
        self.steps.append(step)
        self._next.append(following)
        return len(self.steps) - 1

    def _block(self, statements: Sequence[ast.stmt], following: int, ways: _Ways) -> int:
        """Adds statements; the step that they begin with."""
        for statement in reversed(statements):
            following = self._statement(statement, following, ways)
        return following

    def _statement(self, statement: ast.stmt, following: int, ways: _Ways) -> int:
        match statement:
            case ast.If():
                branches = (statement.body, statement.orelse)
                inside = tuple(self._block(one, following, ways) for one in branches)
                return self._add(Step(statement, (statement.test,)), inside)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(statement, following, ways)
            case ast.With() | ast.AsyncWith():
                items = tuple(item.context_expr for item in statement.items)
                leaving = self._add(Step(statement, items, is_exit=True), (following,))
                return self._add(
                    Step(statement, items), (self._block(statement.body, leaving, ways),)
                )
            case ast.Try():
                return self._try(statement, following, ways)
            case ast.Match():
                cases = [self._block(case.body, following, ways) for case in statement.cases]
                guards = (case.guard for case in statement.cases if case.guard is not None)
                return self._add(Step(statement, (statement.subject, *guards)), (*cases, following))
            case ast.Return():
                return self._add(Step(statement, (statement,)), ways.to_return)
            case ast.Raise():
                return self._add(Step(statement, (statement,)), ways.to_raise)
            case ast.Break():
                return self._add(Step(statement, ()), ways.to_break)
            case ast.Continue():
                return self._add(Step(statement, ()), ways.to_continue)
            case _:
                return self._add(Step(statement, (statement,)), (following,))

    def _loop(
        self, statement: ast.For | ast.AsyncFor | ast.While, following: int, ways: _Ways
    ) -> int:
        part = statement.test if isinstance(statement, ast.While) else statement.iter
        number = self._add(Step(statement, (part,)), ())
        inside = replace(ways, to_break=(following,), to_continue=(number,))
        over = self._block(statement.orelse, following, ways)
        self._next[number] = (self._block(statement.body, number, inside), over)
        return number

    def _try(self, statement: ast.Try, following: int, ways: _Ways) -> int:
        last = self._block(statement.finalbody, following, ways)
        if statement.finalbody:
            ways = replace(ways, to_return=(*ways.to_return, last))
        handlers = tuple(self._block(one.body, last, ways) for one in statement.handlers)
        over = self._block(statement.orelse, last, ways)
        body = self._block(statement.body, over, replace(ways, to_raise=handlers or ways.to_raise))
        types = tuple(one.type for one in statement.handlers if one.type is not None)
        return self._add(Step(statement, types), (body, *handlers))
