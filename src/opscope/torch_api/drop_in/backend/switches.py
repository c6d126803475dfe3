"""Switches and counters of torch's profiler that live in C++."""

from __future__ import annotations

from typing import Any

_forward_backward = True
_concrete_inputs = True
_steps = 0


def set_forward_backward_enabled(enabled: bool) -> None:
    """Whether files have arrows from forward to backward."""
    global _forward_backward
    _forward_backward = enabled


def set_concrete_inputs_enabled(enabled: bool) -> None:
    """Whether the values of arguments that are lists of numbers are shown."""
    global _concrete_inputs
    _concrete_inputs = enabled


def metadata() -> dict[str, Any]:
    """The switches that are off, as a trace keeps them."""
    switches = {"forward_backward": _forward_backward, "concrete_inputs": _concrete_inputs}
    left_out = [name for name, enabled in switches.items() if not enabled]
    return {"left_out": left_out} if left_out else {}


def kineto_step() -> None:
    """Count a training step; there is no daemon to tell about it."""
    global _steps
    _steps += 1
