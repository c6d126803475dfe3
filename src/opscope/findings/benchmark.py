"""Measured savings: both variants run with torch on this machine, with the trace's shapes.

Each function returns None if this machine cannot measure it, for example without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from opscope.columns.codes import ParameterRole
from opscope.columns.dtypes import TORCH_NAMES
from opscope.errors import not_installed
from opscope.findings.pattern import Evidence, Measured
from opscope.findings.subject import CUDA, Subject, Values
from opscope.timeline.signatures import first_of_each, shape_signatures
from opscope.timeline.tree.arguments import Arguments, TensorRecord

Call = Callable[[], object]

_MOST_SHAPES = 4  # kinds of calls that are measured, most expensive first
_SECONDS = 0.1  # run time of each variant


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise not_installed("torch", "Measuring savings") from error
    return torch


def _seconds(call: Call) -> float:
    """Median time of one call."""
    from torch.utils.benchmark import Timer

    call()
    timer = Timer("call()", globals={"call": call})
    return float(timer.blocked_autorange(min_run_time=_SECONDS).median)


def _kinds(subject: Subject, events: Values) -> Iterator[tuple[list[TensorRecord], int]]:
    """Tensor arguments of the most expensive kinds of calls, and the total time of each kind."""
    group, first = first_of_each(shape_signatures(subject.trace)[events])
    total = np.bincount(group, weights=subject.duration_ns[events])
    arguments = Arguments(subject.trace)
    for kind in np.argsort(-total)[:_MOST_SHAPES]:
        inputs = arguments.inputs(int(events[first[kind]]))
        yield [a for a in inputs if isinstance(a, TensorRecord)], int(total[kind])


def _by_ratio(
    subject: Subject,
    evidence: Evidence,
    variants: Callable[[list[TensorRecord], str], tuple[Call, Call]],
    devices: tuple[str, ...],
    what: str,
) -> Measured | None:
    """Scale the time of each kind by the ratio measured here; None without the recorded device."""
    kinds = [*_kinds(subject, evidence.events)]
    on_gpu = any(tensor.device_type == CUDA for tensors, _ in kinds for tensor in tensors)
    device = "cuda" if on_gpu else "cpu"
    if device not in devices or (on_gpu and not _torch().cuda.is_available()):
        return None
    saved = covered = 0.0
    for tensors, time_ns in kinds:
        now, then = (_seconds(_until_done(device, one)) for one in variants(tensors, device))
        saved += time_ns * max(1 - then / now, 0.0)
        covered += time_ns
    scale = subject.time_ns(evidence.events) / covered if covered else 0.0
    return Measured(int(saved * scale), f"{what}, run here with and without the fix")


def measure_convolution_bias(subject: Subject, evidence: Evidence) -> Measured | None:
    """Measure convolutions with and without bias, forward and backward."""
    torch = _torch()

    def variants(tensors: list[TensorRecord], device: str) -> tuple[Call, Call]:
        data, weight = _random(tensors[0], device), _random(tensors[1], device).requires_grad_()
        bias = torch.zeros(tensors[1].sizes[0], requires_grad=True)
        convolve = getattr(torch.nn.functional, f"conv{len(tensors[1].sizes) - 2}d")

        def run(*more: Any) -> None:
            convolve(data, weight, *more, padding="same").sum().backward()

        return partial(run, bias), run

    return _by_ratio(subject, evidence, variants, ("cpu",), "convolutions of the same shapes")


def measure_alignment(subject: Subject, evidence: Evidence) -> Measured | None:
    """Measure products as recorded, and padded to multiples of 8."""

    def variants(tensors: list[TensorRecord], device: str) -> tuple[Call, Call]:
        plain = [_random(one, device) for one in tensors[-2:]]
        padded = [
            _random(one, device, tuple(-(-size // 8) * 8 for size in one.sizes))
            for one in tensors[-2:]
        ]
        product = _torch().matmul
        return partial(product, *plain), partial(product, *padded)

    what = "the products at these sizes and padded ones"
    return _by_ratio(subject, evidence, variants, ("cpu", "cuda"), what)


def measure_tf32(subject: Subject, evidence: Evidence) -> Measured | None:
    """Measure products in full precision and with TF32."""
    torch = _torch()

    def multiply(name: str, *pair: Any) -> None:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(name)
        try:
            torch.matmul(*pair)
        finally:
            torch.set_float32_matmul_precision(before)

    def variants(tensors: list[TensorRecord], device: str) -> tuple[Call, Call]:
        pair = [_random(tensor, device) for tensor in tensors[-2:]]
        return partial(multiply, "highest", *pair), partial(multiply, "high", *pair)

    return _by_ratio(subject, evidence, variants, ("cuda",), "the products in both precisions")


def measure_device_copy(subject: Subject, evidence: Evidence) -> Measured | None:
    """Measure filling on the CPU and copying, against filling on the GPU."""
    torch = _torch()

    def variants(tensors: list[TensorRecord], device: str) -> tuple[Call, Call]:
        size = tensors[0].sizes
        return lambda: torch.ones(size).to(device), partial(torch.ones, size, device=device)

    what = "filling on the CPU and on the GPU"
    return _by_ratio(subject, evidence, variants, ("cuda",), what)


def measure_single_tensor(subject: Subject, evidence: Evidence) -> Measured | None:
    """Measure steps of this optimizer class with these parameter shapes, plain and fused."""
    torch, table = _torch(), subject.trace.table("parameters")
    is_parameter = table["role"] == ParameterRole.PARAMETER
    held = (table["optimizer"] >= 0) & is_parameter
    held = held if held.any() else (table["module"] >= 0) & is_parameter
    rows = np.flatnonzero(held & (table["device_type"] != CUDA))
    shapes = [tuple(table.lists("sizes")[int(row)]) for row in rows]
    step = subject.trace.event_name(int(evidence.events[0]))
    name = step.partition("#")[2].removesuffix(".step")
    if not shapes or name not in ("Adam", "AdamW", "SGD", "Adagrad"):
        return None

    def step_with(**options: bool) -> Call:
        parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer: Call = getattr(torch.optim, name)(parameters, lr=1e-3, **options).step
        return optimizer

    ratio = _seconds(step_with(fused=True)) / _seconds(step_with(foreach=False, fused=False))
    took = subject.duration_ns[evidence.events]
    took = took if evidence.event_time_ns is None else evidence.event_time_ns
    return Measured(
        int(took.sum() * max(1 - ratio, 0.0)),
        f"{name} over {len(shapes):,} parameters of these shapes on the CPU, run here with and "
        "without fused=True",
    )


def _random(tensor: TensorRecord, device: str, sizes: tuple[int, ...] | None = None) -> Any:
    torch = _torch()
    dtype = getattr(torch, tensor.dtype) if tensor.dtype in TORCH_NAMES.values() else torch.float32
    return torch.randn(tensor.sizes if sizes is None else sizes, device=device).to(dtype)


def _until_done(device: str, call: Call) -> Call:
    """``call``, and on a GPU wait until it is done."""
    if device != "cuda":
        return call

    def run() -> None:
        call()
        _torch().cuda.synchronize()

    return run
