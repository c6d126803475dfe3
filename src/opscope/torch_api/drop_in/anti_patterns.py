"""``torch.profiler._pattern_matcher`` for torch 2.14 and newer, which lack it.

The same classes match the same events in a profile's event tree, so programs that use torch's
patterns or derived ones continue to work. The messages are opscope's; ``trace.findings()`` has more
patterns, and the cost of each.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

_BFLOAT16_OR_HALF = ("torch.bfloat16", "torch.float16")
_FILLS = frozenset({"aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_"})
_LOOP = 10  # repetitions of the same operators that make a loop
_REPORT = "torchtidy_report.json"
_LINE = f"{'-' * 40}TorchTidy Report{'-' * 40}"
NO_PLACE = "No source code location found"


class AntiPattern:
    """A mistake, and the events that show it; subclasses implement :meth:`match`.

    Args:
        prof: a finished ``torch.profiler.profile``.
        should_benchmark: ignored; ``trace.findings(benchmark=True)`` measures the cost.

    Attributes:
        name: name of the mistake.
        description: advice.
        url: further reading, or "".
        event_tree: outermost events.
        tid_root: outermost events by thread.
    """

    name = "Pattern"
    description = ""
    url = ""

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        if prof.profiler is None or prof.profiler.kineto_results is None:
            raise AssertionError("The profile has no recording yet: stop it first")
        self.prof = prof
        self.should_benchmark = should_benchmark
        self.event_tree = prof.profiler.kineto_results.experimental_event_tree()
        self.tid_root: dict[int, list[Any]] = {}
        for event in self.event_tree:
            self.tid_root.setdefault(event.start_tid, []).append(event)

    @property
    def skip(self) -> bool:
        """Whether the profile lacks required data."""
        return False

    def match(self, event: Any) -> bool:
        """Whether the event shows the mistake."""
        raise NotImplementedError

    def report(self, event: Any) -> str:
        """Message for one event."""
        return f"{self.description}\n[Source Code Location] {source_code_location(event)}"

    def summary(self, events: list[Any]) -> str:
        """Message for all events."""
        return f"{self.name}: {len(events)} events matched."

    def eventTreeTraversal(self) -> Iterator[Any]:
        """All events, in the order of matching."""
        yield from _in_depth(self.event_tree)

    def matched_events(self) -> list[Any]:
        """The events that show the mistake."""
        return [] if self.skip else [e for e in self.eventTreeTraversal() if self.match(e)]

    def root_of(self, event: Any) -> Any:
        """The outermost event around an event."""
        return self.go_up_until(event, lambda _: False)

    def siblings_of(self, event: Any) -> tuple[list[Any], list[Any]]:
        """Events before and after an event, in the same parent or thread."""
        siblings = event.parent.children if event.parent else self.tid_root[event.start_tid]
        index = siblings.index(event)
        return siblings[:index], siblings[index + 1 :]

    def next_of(self, event: Any) -> Any:
        """The next sibling; None for the last event."""
        return next(iter(self.siblings_of(event)[1]), None)

    def prev_of(self, event: Any) -> Any:
        """The previous sibling; None for the first event."""
        return next(reversed(self.siblings_of(event)[0]), None)

    def go_up_until(self, event: Any, predicate: Callable[[Any], bool]) -> Any:
        """The innermost event with the property, from this one outwards; else the outermost."""
        while event and event.parent and not predicate(event):
            event = event.parent
        return event


Pattern = AntiPattern  # torch's name of the class


class NamePattern(AntiPattern):
    """Events whose name matches a regular expression."""

    def __init__(self, prof: Any, name: str, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.name = name
        self.description = f"Matched Name Event: {name}"

    def match(self, event: Any) -> bool:
        """Whether the name matches."""
        return re.search(self.name, event.name) is not None


class _OperatorPattern(AntiPattern):
    """Needs stacks and shapes."""

    @property
    def skip(self) -> bool:
        return not (self.prof.with_stack and self.prof.record_shapes)


class ExtraCUDACopyPattern(_OperatorPattern):
    """A tensor that is filled on the CPU and then copied to a device."""

    name = "Extra CUDA Copy Pattern"
    description = "A tensor was filled on the CPU and then moved. Make it on the device at once."

    def match(self, event: Any) -> bool:
        """Whether the event is such a copy."""
        copy = event
        for inner in ("aten::_to_copy", "aten::copy_"):
            copy = next(reversed(copy.children), None) if event.name == "aten::to" else None
            if copy is None or copy.name != inner:
                return False
        kinds = input_dtypes(copy)
        if len(kinds) < 2 or kinds[0] is None or kinds[0] != kinds[1] or event.parent is None:
            return False
        before = self.prev_of(event.parent)
        while before is not None and before.name not in _FILLS:
            before = next(reversed(before.children), None)
        return before is not None


class ForLoopIndexingPattern(AntiPattern):
    """A tensor that is indexed in a loop."""

    name = "For Loop Indexing Pattern"
    description = "A tensor is indexed in a loop. Use one operator on the whole tensor."

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.visited: set[int] = set()

    def eventTreeTraversal(self) -> Iterator[Any]:
        """Outer events first, so that the first event of a loop matches."""
        waiting = deque(self.event_tree)
        while waiting:
            event = waiting.popleft()
            yield event
            waiting.extend(event.children)

    def match(self, event: Any) -> bool:
        """Whether a loop begins with the event."""
        if event.name != "aten::select" or event.id in self.visited:
            return False
        later = self.siblings_of(event)[1]
        names = [sibling.name for sibling in later]
        if len(later) <= 1 or "aten::select" not in names:
            return False
        length = names.index("aten::select") + 1
        iteration = [event.name, *names[: length - 1]]
        iterations = 1
        for start in range(length - 1, len(later), length):
            if names[start : start + length] != iteration:
                break
            iterations += 1
            self.visited.add(later[start].id)
        return iterations >= _LOOP


class FP32MatMulPattern(AntiPattern):
    """A product of matrices without TF32, on a GPU that has it."""

    name = "FP32 MatMul Pattern"
    description = (
        "This GPU has TF32, which this product of matrices does not use. "
        "Set torch.backends.cuda.matmul.allow_tf32 = True if its precision is enough."
    )

    @property
    def skip(self) -> bool:
        """Whether there is no such GPU, or shapes were not recorded."""
        import torch

        numbers = [re.sub("sm_|compute_", "", name) for name in torch.cuda.get_arch_list()]
        has_tf32 = torch.version.hip is None and all(
            int(re.sub(r"\D", "", number)) >= 80 for number in numbers
        )
        return not has_tf32 or not self.prof.record_shapes

    def match(self, event: Any) -> bool:
        """Whether the event is such a product."""
        return event.name == "aten::mm" and event.extra_fields.allow_tf32_cublas is False

    def report(self, event: Any) -> str:
        """One message for all events, so that it appears once."""
        return self.description


class OptimizerSingleTensorPattern(AntiPattern):
    """An optimizer that updates parameters one by one."""

    name = "Optimizer Single Tensor Pattern"
    description = "The optimizer updates one tensor at a time. Make it with foreach=True."

    def __init__(self, prof: Any, should_benchmark: bool = False) -> None:
        super().__init__(prof, should_benchmark)
        self.optimizers_with_foreach = ["adam", "sgd", "adamw"]

    def match(self, event: Any) -> bool:
        """Whether the event is such an optimizer's update function."""
        names = [f"_single_tensor_{optimizer}" for optimizer in self.optimizers_with_foreach]
        return any(event.name.endswith(name) for name in names)


class SynchronizedDataLoaderPattern(AntiPattern):
    """A DataLoader without workers."""

    name = "Synchronized DataLoader Pattern"
    description = "The DataLoader loads while the program waits. Make it with num_workers > 0."

    def match(self, event: Any) -> bool:
        """Whether the event starts such a DataLoader."""
        names = [event.name]
        for _ in range(2):
            if not event.children:
                return False
            event = event.children[0]
            names.append(event.name)
        return (
            _is_of_data_loader(names[0], "__iter__")
            and _is_of_data_loader(names[1], "_get_iterator")
            and not _is_of_data_loader(names[2], "check_worker_number_rationality")
        )


class GradNotSetToNonePattern(AntiPattern):
    """Gradients that are filled with zeros."""

    name = "Gradient Set To Zero Instead of None Pattern"
    description = "Gradients are filled with zeros. Call zero_grad(set_to_none=True)."

    def match(self, event: Any) -> bool:
        """Whether the event is a ``zero_grad`` that fills with zeros."""
        return event.name.endswith(": zero_grad") and any(
            inner.name == "aten::zero_" and inner.parent.name != "aten::zeros"
            for inner in _in_depth(event.children)
        )


class Conv2dBiasFollowedByBatchNorm2dPattern(AntiPattern):
    """A bias without effect, because a batch norm follows."""

    name = "Enabling Bias in Conv2d Followed By BatchNorm Pattern"
    description = "A batch norm takes away the bias of the Conv2d before it. Set bias=False there."

    @property
    def skip(self) -> bool:
        """Whether shapes were not recorded."""
        return not self.prof.record_shapes

    def match(self, event: Any) -> bool:
        """Whether the event is such a convolution."""
        if event.name != "aten::conv2d" or (*input_dtypes(event), None, None, None)[2] is None:
            return False
        module = self.go_up_until(event, lambda e: e.name.startswith("nn.Module: Conv2d"))
        following = self.next_of(module)
        return following is not None and following.name.startswith("nn.Module: BatchNorm2d")


class MatMulDimInFP16Pattern(_OperatorPattern):
    """A product of 16-bit matrices with sizes that are not multiples of 8."""

    name = "Matrix Multiplication Dimension Not Aligned Pattern"
    description = "Sizes of a matrix product are not multiples of 8. Pad them."

    def match(self, event: Any) -> bool:
        """Whether the event is such a product."""
        if event.name not in ("aten::mm", "aten::bmm", "aten::addmm"):
            return False
        kinds = input_dtypes(event)
        return str(next(iter(kinds), None)) in _BFLOAT16_OR_HALF and any(
            size % 8 for shape in input_shapes(event) for size in shape[-2:]
        )


def source_code_location(event: Any) -> str:
    """``file:line`` of the innermost call outside torch around an event."""
    while event:
        caller = getattr(event.extra_fields, "caller", None)
        if caller is not None and not caller.file_name.startswith(f"torch{os.sep}"):
            return f"{caller.file_name}:{caller.line_number}"
        event = event.parent
    return NO_PLACE


def input_shapes(event: Any) -> tuple[tuple[int, ...], ...]:
    """Shape of each argument of an operator; empty for other values."""
    return tuple(tuple(getattr(value, "sizes", ())) for value in event.extra_fields.inputs)


def input_dtypes(event: Any) -> tuple[Any, ...]:
    """Dtype of each argument of an operator; None for other values."""
    return tuple(getattr(value, "dtype", None) for value in event.extra_fields.inputs)


def report_all_anti_patterns(
    prof: Any,
    should_benchmark: bool = False,
    print_enable: bool = True,
    json_report_dir: str | None = None,
) -> None:
    """Match all patterns except indexing in loops, like torch; print and write the results.

    Args:
        prof: a finished ``torch.profiler.profile``.
        should_benchmark: ignored; see :class:`AntiPattern`.
        print_enable: print the results.
        json_report_dir: an existing folder for ``torchtidy_report.json``, which is extended.
    """
    matches: dict[str, None] = {}
    summaries: list[str] = []
    by_file: dict[str, list[dict[str, Any]]] = {}
    for kind in _REPORTED:
        pattern = kind(prof, should_benchmark)
        events = pattern.matched_events()
        if events:
            summaries.append(pattern.summary(events))
        for event in events:
            text = pattern.report(event)
            if text in matches:
                continue
            matches[text] = None
            file, separator, line = source_code_location(event).rpartition(":")
            if separator:
                by_file.setdefault(file, []).append(
                    {
                        "line_number": int(line),
                        "name": pattern.name,
                        "url": pattern.url,
                        "message": pattern.description,
                    }
                )
    if json_report_dir is not None:
        _add_to_report(Path(json_report_dir, _REPORT), by_file)
    if print_enable:
        print("\n".join([_LINE, "Matched Events:", *matches, "Summary:", *summaries, _LINE]))


_REPORTED = (
    ExtraCUDACopyPattern,
    FP32MatMulPattern,
    OptimizerSingleTensorPattern,
    SynchronizedDataLoaderPattern,
    GradNotSetToNonePattern,
    Conv2dBiasFollowedByBatchNorm2dPattern,
    MatMulDimInFP16Pattern,
)


def _add_to_report(path: Path, by_file: dict[str, list[dict[str, Any]]]) -> None:
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, **by_file}, indent=4))


def _is_of_data_loader(name: str, function: str) -> bool:
    file = os.path.join("torch", "utils", "data", "dataloader.py")
    return name.startswith(file) and name.endswith(function)


def _in_depth(events: Iterable[Any]) -> Iterator[Any]:
    waiting = list(events)[::-1]
    while waiting:
        event = waiting.pop()
        yield event
        waiting.extend(reversed(event.children))
