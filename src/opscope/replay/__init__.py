"""Runs the operators of a trace again on new tensors, to measure their time on this machine.

``calls``: distinct calls of a trace; ``fresh_arguments``: their arguments; ``timing``: duration of
a call; ``replay``: the whole replay.
"""

from opscope.replay.replay import RefusedCall, Replay, ReplayedCall, replay

__all__ = ["RefusedCall", "Replay", "ReplayedCall", "replay"]
