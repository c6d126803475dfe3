"""What users can name: each is something to document, and to keep."""

from __future__ import annotations

import opscope
from opscope.cli.application import COMMANDS, parser_of_all
from opscope.columns.schema import TABLES
from opscope.findings.patterns import all_patterns


def named() -> dict[str, int]:
    """How many of each."""
    subparsers = next(one for one in parser_of_all()._actions if isinstance(one.choices, dict))
    options = [
        action
        for parser in subparsers.choices.values()
        for action in parser._actions
        if action.option_strings and "--help" not in action.option_strings
    ]
    return {
        "public names": len(opscope.__all__),
        "commands": len(COMMANDS),
        "options": len(options),
        "finding ids": len({pattern.id for pattern in all_patterns()}),
        "columns": sum(len(table.columns) for table in TABLES.values()),
    }
