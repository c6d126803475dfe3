"""Show what filled the memory at its peak: categories, modules, operators, functions.

Largest first. Record with --memory. --shapes adds categories and memory allocated before the
recording; --modules and --stack add the module and the line that allocated it. JSON and CSV contain
all groups, in bytes.

For a folder with several processes it shows the peak of each.

TRACE may also be a memory snapshot of torch (torch.cuda.memory._dump_snapshot): then the command
shows the memory in use at the peak and at the end by line, over time, and the memory of the
allocator.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import astuple

from opscope.analysis.memory.life_categories import PeakGroup, by_function
from opscope.analysis.memory.peak import NO_LINE, PeakMemory, memory_at_peak
from opscope.base.quantity_text import bytes_text
from opscope.cli.parser import Parser, example, whole_number
from opscope.cli.trace_argument import add_trace, choose_trace
from opscope.cli.views.findings import relative_file
from opscope.cli.views.results import Result, Section, add_format
from opscope.cli.views.side_by_side import answer
from opscope.cli.views.snapshot import group_section, is_snapshot, snapshot_result

_CSV_HEADINGS = ("by", "name", "size_bytes", "blocks", "before_bytes")


def options(parser: Parser) -> None:
    """Add the options."""
    add_trace(parser, period=False, part=False)
    parser.add_argument(
        "--device",
        metavar="DEVICE",
        help=(
            "Device, such as cpu or cuda:0. [default: the accelerator with the highest peak, "
            "else cpu]"
        ),
    )
    parser.add_argument(
        "--row-limit",
        metavar="N",
        type=whole_number(1),
        default=8,
        help="Rows of each table. [default: 8]",
    )
    add_format(parser)
    parser.epilog = example("opscope memory", "opscope memory job --rank 2 --device cuda:2")


def main(args: Namespace) -> None:
    """Print the peak of one process, of each process, or of a memory snapshot."""
    if args.trace is not None and is_snapshot(args.trace):
        snapshot_result(args.trace, args.device, args.row_limit).show(args.format)
        return
    answer(
        choose_trace(args),
        "adding up the memory of",
        lambda trace: memory_at_peak(trace, args.device),
        lambda peak: _result(peak, args.row_limit),
    ).show(args.format)


def _result(peak: PeakMemory, row_limit: int) -> Result:
    program_lines = [group for group in peak.by_line if group.name != NO_LINE]
    groups = [
        ("category", peak.by_category),
        ("module", peak.by_module),
        ("operator", peak.by_operator),
        ("Python function", by_function(peak.by_stack)),
        *([("line of the program", peak.by_line)] if program_lines else []),
    ]
    total = peak.total_bytes
    return Result(
        sections=[
            Section(notes=list(_headline(peak))),
            *(group_section(title, group, total, row_limit) for title, group in groups),
        ],
        content=peak.to_dict(),
        columns=_CSV_HEADINGS,
        rows=[[by, *astuple(group)] for by, groups in _groups(peak) for group in groups],
        overview=[
            {
                "Device": peak.device,
                "In use": bytes_text(total),
                "Allocated before": bytes_text(peak.before_bytes),
                "Most for": _largest(peak.by_category),
                "Most by": _largest(program_lines or peak.by_module),
            }
        ],
        weight=total,
    )


def _headline(peak: PeakMemory) -> Iterator[str]:
    yield f"{bytes_text(peak.total_bytes)} in use on {peak.device} at its peak"
    for size_bytes, what in (
        (peak.before_bytes, "allocated before the recording"),
        (peak.unseen_bytes, "of that neither used nor freed since"),
        (peak.uncertain_bytes, "of that possibly freed (a free was not reported)"),
    ):
        if size_bytes:
            yield f"  {bytes_text(size_bytes)} of {what}"


def _largest(groups: tuple[PeakGroup, ...] | list[PeakGroup]) -> str:
    if not groups:
        return "-"
    return f"{relative_file(groups[0].name)} {bytes_text(groups[0].size_bytes)}"


def _groups(peak: PeakMemory) -> list[tuple[str, tuple[PeakGroup, ...]]]:
    return [
        ("category", peak.by_category),
        ("module", peak.by_module),
        ("operator", peak.by_operator),
        ("stack", peak.by_stack),
        ("line", peak.by_line),
    ]
