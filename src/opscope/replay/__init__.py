"""Running the operators of a trace again, on fresh tensors, to measure their time here and now.

``calls``: distinct calls of a trace; ``fresh_arguments``: tensors and values for them; ``timing``:
duration of a call; ``replay``: all together.
"""

from opscope.replay.replay import RefusedCall, Replay, ReplayedCall, replay

__all__ = ["RefusedCall", "Replay", "ReplayedCall", "replay"]
