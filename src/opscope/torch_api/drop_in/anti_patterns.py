"""``torch.profiler._pattern_matcher`` for torch 2.14 and newer, which do not have it any more.

Programs that import it go on working, and patterns of their own match events of the profile's tree.
torch's own patterns match nothing here: ``trace.findings()`` knows these mistakes and more, with
what each costs, and is what the report shows.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from opscope.api.trace import Trace

_REPORT = "torchtidy_report.json"


class AntiPattern:
    """A mistake, and how an event that shows it is known; derive and give :meth:`match`.

    ``prof`` is a ``torch.profiler.profile`` that has ended.
    """

    name = "Pattern"
    description = ""
    url = ""
    skip = False
    """Whether the profile does not have what this takes."""

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        if prof.profiler is None or prof.profiler.kineto_results is None:
            raise AssertionError("The profile has recorded nothing yet: stop it first")
        self.prof = prof
        self.should_benchmark = should_benchmark
        self.event_tree = prof.profiler.kineto_results.experimental_event_tree()
        self.tid_root: dict[int, list[Any]] = {}  # the outermost events, by thread
        for event in self.event_tree:
            self.tid_root.setdefault(event.start_tid, []).append(event)

    def match(self, event: Any) -> bool:
        """Whether the event shows the mistake."""
        raise NotImplementedError

    def report(self, event: Any) -> str:
        """What to say of an event."""
        return f"{self.description}\n{event.name}"

    def summary(self, events: list[Any]) -> str:
        """What to say of all."""
        return f"{self.name}: {len(events)} events matched."

    def eventTreeTraversal(self) -> Iterator[Any]:
        """All events, outer ones before those inside."""
        waiting = list(self.event_tree)[::-1]
        while waiting:
            event = waiting.pop()
            yield event
            waiting.extend(reversed(event.children))

    def matched_events(self) -> list[Any]:
        """The events that show the mistake."""
        return [] if self.skip else [e for e in self.eventTreeTraversal() if self.match(e)]

    def root_of(self, event: Any) -> Any:
        """The outermost event around one."""
        return self.go_up_until(event, lambda _: False)

    def siblings_of(self, event: Any) -> tuple[list[Any], list[Any]]:
        """Those before and those after it, in the same event or thread."""
        around = event.parent.children if event.parent else self.tid_root[event.start_tid]
        place = around.index(event)
        return around[:place], around[place + 1 :]

    def next_of(self, event: Any) -> Any:
        """The one after it; None if it is the last."""
        return next(iter(self.siblings_of(event)[1]), None)

    def prev_of(self, event: Any) -> Any:
        """The one before it; None if it is the first."""
        return next(reversed(self.siblings_of(event)[0]), None)

    def go_up_until(self, event: Any, predicate: Callable[[Any], bool]) -> Any:
        """The innermost event around one, or itself, for which this holds; else the outermost."""
        while event and event.parent and not predicate(event):
            event = event.parent
        return event


Pattern = AntiPattern
"""torch's name of it."""


class NamePattern(AntiPattern):
    """Events whose name has a regular expression in it."""

    def __init__(self, prof: Any, name: str, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = name
        self.description = f"Matched Name Event: {name}"

    def match(self, event: Any) -> bool:
        """Whether it is named so."""
        return re.search(self.name, event.name) is not None


class _OfTorch(AntiPattern):
    """A pattern that torch had until 2.13."""

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        warnings.warn(
            f"{type(self).__name__} matches nothing: torch has no pattern matchers from 2.14 on. "
            "trace.findings() and `opscope why` find this mistake and others.",
            stacklevel=2,
        )

    def match(self, event: Any) -> bool:
        return False


ExtraCUDACopyPattern = type("ExtraCUDACopyPattern", (_OfTorch,), {})
ForLoopIndexingPattern = type("ForLoopIndexingPattern", (_OfTorch,), {})
FP32MatMulPattern = type("FP32MatMulPattern", (_OfTorch,), {})
OptimizerSingleTensorPattern = type("OptimizerSingleTensorPattern", (_OfTorch,), {})
SynchronizedDataLoaderPattern = type("SynchronizedDataLoaderPattern", (_OfTorch,), {})
GradNotSetToNonePattern = type("GradNotSetToNonePattern", (_OfTorch,), {})
Conv2dBiasFollowedByBatchNorm2dPattern = type(
    "Conv2dBiasFollowedByBatchNorm2dPattern", (_OfTorch,), {}
)
MatMulDimInFP16Pattern = type("MatMulDimInFP16Pattern", (_OfTorch,), {})


def report_all_anti_patterns(
    prof: Any,
    should_benchmark: bool = False,
    print_enable: bool = True,
    json_report_dir: str | None = None,
) -> None:
    """Print the findings of a profile that has ended, and add them to ``torchtidy_report.json``.

    The file, in an existing folder, has them by file of the program, as torch wrote them.
    """
    findings = Trace.of(prof.profiler.kineto_results.trace).findings(benchmark=should_benchmark)
    if json_report_dir is not None:
        path = Path(json_report_dir, _REPORT)
        report = json.loads(path.read_text()) if path.exists() else {}
        for finding in findings:
            said = {"name": finding.title, "url": finding.link, "message": finding.advice}
            for place in finding.places:
                if place.file:
                    report.setdefault(place.file, []).append({"line_number": place.line, **said})
        path.write_text(json.dumps(report, indent=4))
    if print_enable:
        print(findings)
