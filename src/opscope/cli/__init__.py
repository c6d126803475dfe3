"""The command line: one command per file, errors turned into exit codes in one place."""

from opscope.cli.application import main

__all__ = ["main"]
