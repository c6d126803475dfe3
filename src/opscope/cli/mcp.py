"""Answer agents' questions about traces, over the Model Context Protocol.

Add `opscope mcp` to the servers of your agent, which starts it. Traces stay open, so a question
takes milliseconds. Names and texts of a trace are quoted as data; queries can only read.

With --allow-run the agent can also record programs: it can run anything that you can.

--http listens on 127.0.0.1 at an address that only this command's output names.
"""

from __future__ import annotations

from argparse import Namespace

import opscope
from opscope.cli.parser import Parser, example, whole_number
from opscope.cli.views.console import Messages
from opscope.errors import UsageError


def options(parser: Parser) -> None:
    """Add the options."""
    parser.add_argument(
        "--allow-run", action="store_true", help="Let the agent run programs, to record them."
    )
    parser.add_argument(
        "--http",
        metavar="PORT",
        type=whole_number(1),
        help="Listen on this port of 127.0.0.1. [default: standard input and output]",
    )
    parser.epilog = example("opscope mcp", "opscope mcp --allow-run --http 8765")


def main(args: Namespace) -> None:
    """Serve until the client disconnects, or Ctrl-C."""
    from opscope.readers.mcp_server import serve

    if args.http is not None and args.http > 65535:
        raise UsageError(f"--http is {args.http}, and the highest port is 65535.")
    serve(args.allow_run, args.http, opscope.__version__, Messages().say)
