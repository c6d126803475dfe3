"""What a fix saves, measured: both variants run with torch on this machine, at the trace's shapes.

Every function returns None where it cannot be measured here, as without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import ParameterRole
from opscope.columns.dtypes import TORCH_NAMES
from opscope.errors import MissingDependencyError
from opscope.findings.pattern import Evidence, Measured
from opscope.findings.subject import CUDA, Subject
from opscope.timeline.signatures import first_of_each, shape_signatures
from opscope.timeline.tree.arguments import Arguments, TensorRecord

Values = npt.NDArray[np.int64]

_MOST_SHAPES = 4
"""Kinds of calls that are measured, those with most time first."""

_SECONDS = 0.1
"""How long each variant runs."""


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            "Measuring what a fix saves needs torch, which cannot be imported here. Install torch, "
            "or leave out the benchmark: estimates are derived from the recording then."
        ) from error
    return torch


def _seconds(call: Callable[[], object]) -> float:
    """Median time of one call."""
    from torch.utils.benchmark import Timer

    call()
    timer = Timer("call()", globals={"call": call})
    return float(timer.blocked_autorange(min_run_time=_SECONDS).median)


def _kinds(subject: Subject, events: Values) -> Iterator[tuple[list[TensorRecord], int]]:
    """Tensor arguments of the most expensive kinds of calls, and the time of all of that kind."""
    group, first = first_of_each(shape_signatures(subject.trace)[events])
    total = np.bincount(group, weights=subject.duration_ns[events])
    arguments = Arguments(subject.trace)
    for kind in np.argsort(-total)[:_MOST_SHAPES]:
        inputs = arguments.inputs(int(events[first[kind]]))
        yield [a for a in inputs if isinstance(a, TensorRecord)], int(total[kind])


def _by_ratio(
    subject: Subject,
    evidence: Evidence,
    variants: Callable[[list[TensorRecord]], tuple[Callable[[], object], Callable[[], object]]],
    what: str,
) -> Measured:
    """Scale the recorded time of each kind by what the fix leaves of it here."""
    saved, covered = 0.0, 0
    for tensors, time_ns in _kinds(subject, evidence.events):
        now, then = variants(tensors)
        before = _seconds(now)
        saved += time_ns * max(1 - _seconds(then) / before, 0.0)
        covered += time_ns
    scale = evidence.time_ns / covered if covered else 0.0
    return Measured(int(saved * scale), f"{what}, run here with and without the fix")


def measure_convolution_bias(subject: Subject, evidence: Evidence) -> Measured | None:
    """A convolution's forward and backward pass with and without bias."""
    torch = _torch()

    def variants(tensors: list[TensorRecord]) -> Any:
        data, weight = _random(tensors[0], "cpu"), _random(tensors[1], "cpu").requires_grad_()
        bias = torch.zeros(tensors[1].sizes[0], requires_grad=True)
        dimensions = len(tensors[1].sizes) - 2
        convolve = getattr(torch.nn.functional, f"conv{dimensions}d")

        def run(*more: Any) -> Callable[[], object]:
            return lambda: convolve(data, weight, *more, padding="same").sum().backward()

        return run(bias), run()

    if any(t.device_type == CUDA for t, *_ in (k[0] for k in _kinds(subject, evidence.events))):
        return None
    return _by_ratio(subject, evidence, variants, "convolutions of the same shapes")


def measure_alignment(subject: Subject, evidence: Evidence) -> Measured | None:
    """Products as they are, and padded to multiples of 8."""
    torch = _torch()
    device = _device(subject, evidence)
    if device is None:
        return None

    def variants(tensors: list[TensorRecord]) -> Any:
        left, right = tensors[-2:]
        padded = [
            _random(t, device, tuple(-(-size // 8) * 8 for size in t.sizes)) for t in (left, right)
        ]
        plain = [_random(t, device) for t in (left, right)]
        return _then_wait(device, torch.matmul, *plain), _then_wait(device, torch.matmul, *padded)

    return _by_ratio(subject, evidence, variants, "the products at these sizes and padded ones")


def measure_tf32(subject: Subject, evidence: Evidence) -> Measured | None:
    """Products in full precision and with TF32."""
    torch = _torch()
    device = _device(subject, evidence)
    if device != "cuda":
        return None

    def with_precision(name: str, *pair: Any) -> Callable[[], object]:
        def call() -> None:
            before = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision(name)
            try:
                _then_wait(device, torch.matmul, *pair)()
            finally:
                torch.set_float32_matmul_precision(before)

        return call

    def variants(tensors: list[TensorRecord]) -> Any:
        pair = [_random(tensor, device) for tensor in tensors[-2:]]
        return with_precision("highest", *pair), with_precision("high", *pair)

    return _by_ratio(subject, evidence, variants, "the products in both precisions")


def measure_device_copy(subject: Subject, evidence: Evidence) -> Measured | None:
    """Filling on the CPU and copying, and filling on the GPU."""
    torch = _torch()
    if not torch.cuda.is_available():
        return None

    def variants(tensors: list[TensorRecord]) -> Any:
        size = tensors[0].sizes
        return (
            _then_wait("cuda", lambda: torch.ones(size).to("cuda")),
            _then_wait("cuda", lambda: torch.ones(size, device="cuda")),
        )

    return _by_ratio(subject, evidence, variants, "filling on the CPU and on the GPU")


def measure_single_tensor(subject: Subject, evidence: Evidence) -> Measured | None:
    """Steps of the same kind of optimizer over parameters of the same shapes, plain and fused."""
    torch = _torch()
    shapes = _optimizer_shapes(subject)
    step = subject.trace.event_name(int(evidence.events[0]))
    kind = getattr(torch.optim, step.partition("#")[2].removesuffix(".step"), None)
    if not shapes or kind not in (
        torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad
    ):  # fmt: skip
        return None

    def step_with(**options: bool) -> Callable[[], object]:
        parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer: Callable[[], object] = kind(parameters, lr=1e-3, **options).step
        return optimizer

    ratio = _seconds(step_with(fused=True)) / _seconds(step_with(foreach=False, fused=False))
    return Measured(
        int(evidence.time_ns * max(1 - ratio, 0.0)),
        f"{kind.__name__} over {len(shapes):,} parameters of these shapes on the CPU, run here "
        "with and without fused=True",
    )


def _optimizer_shapes(subject: Subject) -> list[tuple[int, ...]]:
    table = subject.trace.table("parameters")
    held = (table["optimizer"] >= 0) & (table["role"] == ParameterRole.PARAMETER)
    if not held.any():
        held = (table["module"] >= 0) & (table["role"] == ParameterRole.PARAMETER)
    rows = np.flatnonzero(held & (table["device_type"] != CUDA))
    return [tuple(table.lists("sizes")[int(row)]) for row in rows]


def _device(subject: Subject, evidence: Evidence) -> str | None:
    """Where the first occurrence ran; None if this machine has no such device."""
    tensors, _ = next(_kinds(subject, evidence.events))
    if not any(tensor.device_type == CUDA for tensor in tensors):
        return "cpu"
    return "cuda" if _torch().cuda.is_available() else None


def _random(tensor: TensorRecord, device: str, sizes: tuple[int, ...] | None = None) -> Any:
    torch = _torch()
    dtype = getattr(torch, tensor.dtype) if tensor.dtype in TORCH_NAMES.values() else torch.float32
    return torch.randn(tensor.sizes if sizes is None else sizes, device=device).to(dtype)


def _then_wait(device: str, call: Callable[..., object], *arguments: Any) -> Callable[[], object]:
    """``call``, and on a GPU wait until it is done."""
    torch = _torch()

    def run() -> None:
        call(*arguments)
        if device == "cuda":
            torch.cuda.synchronize()

    return run
