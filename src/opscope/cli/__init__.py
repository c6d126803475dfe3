"""The command line: one command per file."""

from opscope.cli.application import main

__all__ = ["main"]
