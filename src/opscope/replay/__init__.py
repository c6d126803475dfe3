"""Running the operators of a trace again, on fresh tensors, to see what they take here and now.

``calls``: which calls a trace holds, each distinct one once; ``fresh_arguments``: tensors and
values to call them with; ``timing``: how long a call takes; ``replay``: all of it.
"""

from opscope.replay.replay import RefusedCall, Replay, ReplayedCall, replay

__all__ = ["RefusedCall", "Replay", "ReplayedCall", "replay"]
