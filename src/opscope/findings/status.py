"""The possible statuses of a verdict."""

from __future__ import annotations

from enum import Enum

from opscope.columns.causes import Cause


class Status(Enum):
    """The state of a program, in the words that are shown."""

    HEALTHY = "healthy"
    DATA_LOADING = "slow: data loading"
    PYTHON = "slow: Python"
    LAUNCH_BOUND = "slow: launch-bound"
    SMALL_OPERATORS = "slow: many small operators"
    OPERATORS = "slow: operators"
    ALLOCATION = "slow: allocating memory"
    WAITING = "slow: waiting"
    EVENT_LOOP = "blocked event loop"
    MEMORY = "memory grows"
    STRAGGLER = "straggler"
    COMMUNICATION = "communication-bound"
    DEVICE_IDLE = "device idle"
    BUSY = "machine too busy to tell"
    TOO_LITTLE = "too little recorded to tell"

    @property
    def is_decided(self) -> bool:
        """Whether the recording was sufficient for an answer."""
        return self not in (Status.BUSY, Status.TOO_LITTLE)


OF_CAUSE = {
    Cause.DISPATCH: Status.SMALL_OPERATORS,
    Cause.PYTHON: Status.PYTHON,
    Cause.COLLECTION: Status.PYTHON,
    Cause.IMPORT: Status.PYTHON,
    Cause.COMPILATION: Status.PYTHON,
    Cause.GIL: Status.PYTHON,
    Cause.MEMORY: Status.ALLOCATION,
    Cause.LOADER: Status.DATA_LOADING,
    Cause.LOCK: Status.WAITING,
    Cause.IO: Status.WAITING,
    Cause.TIMER: Status.WAITING,
    Cause.BACKWARD: Status.WAITING,
    Cause.IDLE: Status.WAITING,
    Cause.DEVICE: Status.DEVICE_IDLE,
    Cause.COLLECTIVE: Status.COMMUNICATION,
    Cause.DESCHEDULED: Status.BUSY,
    Cause.UNKNOWN: Status.TOO_LITTLE,
}
"""Status of a program with this main cause, if no finding is more specific."""
