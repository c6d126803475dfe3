"""A GPU that waits for the host, because launches take longer than the work."""

from __future__ import annotations

import numpy as np

from opscope.base.quantity_text import share_text
from opscope.findings.pattern import Evidence, Needs, Pattern
from opscope.findings.patterns.synchronisation import waiting_calls
from opscope.findings.saving import Saves
from opscope.findings.status import Status
from opscope.findings.subject import CUDA, Flags, Subject, Values
from opscope.timeline.stretches import union_of

_MANY, _WORTH_SAYING = 100, 0.08
"""Fewest operators; least share of the time in which the GPU is idle."""


def _find(subject: Subject) -> Evidence | None:
    """Calls that take longer than the GPU work that they launch, if a CUDA graph can replace them.

    A graph cannot contain operators whose result the host waits for.
    """
    outermost, took = subject.outermost, subject.duration_ns
    waits = subject.flags(subject.outermost_operator[waiting_calls(subject)])
    on_device = is_on_device(subject, outermost)
    # A call of the program counts as a whole, with the library code in it.
    above, called = subject.inside(subject.sites.called_here), subject.sites.called_here[outermost]
    called |= above[outermost] < 0
    call, group = np.unique(np.where(called, outermost, above[outermost]), return_inverse=True)
    count = np.bincount(group)
    within = np.bincount(group, weights=subject.sums(subject.launched_ns)[outermost])
    held = np.bincount(group, weights=on_device & ~waits[outermost]) == count
    chosen = held & (within < took[call]) if len(call) else held
    launches = int(count[chosen].sum())
    waiting = 1 - int(union_of(*subject.device_work).total_ns) / subject.wall_ns
    if launches < _MANY or waiting < _WORTH_SAYING:
        return None
    events = call[chosen]
    return Evidence(
        events=events,
        explanation=(
            f"{launches:,} GPU operators finish faster than their launch takes, from "
            f"{len(events):,} calls of the program, so the GPU waits for the host. It is idle "
            f"{share_text(waiting)} of the time, for this and other reasons."
        ),
        saved_ns=subject.time_ns(events),
        saved_by=(
            "the time that the GPU waits for these calls: a CUDA graph launches all its work "
            "at once, but needs the same shapes in every step"
        ),
        saves=Saves.HOST,
    )


def is_on_device(subject: Subject, operators: Values) -> Flags:
    """Which outermost operators launch work, or have a tensor on a GPU as first argument."""
    tensor = subject.tensor_argument(0)[operators]
    there = subject.tensor_column("device_type", tensor) == CUDA
    return np.asarray(there | (subject.sums(subject.launched_ns)[operators] > 0))


LAUNCH_BOUND = Pattern(
    id="launch-bound",
    status=Status.LAUNCH_BOUND,
    title="Launch-bound: the GPU waits for kernel launches",
    advice=(
        'Launch steps as CUDA graphs: torch.compile(model, mode="reduce-overhead"), '
        "torch.cuda.make_graphed_callables, or torch.cuda.CUDAGraph around a whole step; or give "
        "each launch more to do: larger batches, torch.compile, fused optimizers."
    ),
    find=_find,
    needs=(Needs.KERNELS,),
    is_general=True,
    link="https://pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
)
