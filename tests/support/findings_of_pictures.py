"""Findings about pictures of a timeline."""

from __future__ import annotations

from opscope.columns.schema import EventKind
from opscope.findings.find import find_findings
from support.build_trace import span

MICROSECOND = 1000
ANNOTATION = {"kind": EventKind.ANNOTATION}


def found(trace, pattern):
    """The finding, or None if the pattern was looked for in vain."""
    findings = find_findings(trace)
    assert pattern not in [one.id for one in findings.unchecked]
    return None if pattern in findings.absent else findings[pattern]


def loads(name, took, between=10):
    return [
        span(f"enumerate(DataLoader)#{name}.__next__", i * (took + between),
             i * (took + between) + took, **ANNOTATION)
        for i in range(5)
    ]  # fmt: skip
