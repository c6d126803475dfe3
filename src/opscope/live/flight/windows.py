"""The windows that the ring is made of: they overlap, and all of them collect the same."""

from __future__ import annotations

from opscope import _native
from opscope.base.memory_limit import default_growth_bytes
from opscope.errors import LifecycleError
from opscope.live.flight.ring_file import RingFile
from opscope.recording.sources import SOURCES, RecordingOptions, native_wants

_MOST_TEXT_BYTES = 64 << 20
"""Of functions and modules that records refer to; forgotten only when no window is open."""


class RingWindows:
    """Opens windows and hands them to the native ring, which lets go of the old ones."""

    def __init__(self, options: RecordingOptions, watch: _native.Watch, file: RingFile) -> None:
        self._wants = native_wants(options)
        self._collects = self._wants
        self._watch, self._file = watch, file
        # Where the ring's own thread cannot keep it within its memory, that is the end of it.
        self._most_growth_bytes = default_growth_bytes()
        self.began_anew = 0

    @staticmethod
    def prepare() -> None:
        """Do what is slow, before anything is open.

        Raises:
            BridgeError: the bridge to torch cannot be built or loaded.
        """
        for source in SOURCES:
            if source.prepare is not None:
                source.prepare()

    def open(self) -> None:
        """Open one more.

        Raises:
            LifecycleError: torch refused the callbacks.
        """
        statistics = _native.statistics()
        # Where another recording is kept, they are not forgotten, and it would be for nothing.
        is_alone = statistics["windows"] <= len(self._watch.windows)
        if statistics["text_bytes"] > _MOST_TEXT_BYTES and is_alone:
            self._begin_anew()
        reserved = _native.reserve_window()
        self._file.begin(reserved)
        try:
            window = _native.open_window(
                self._wants,
                True,
                reserved,
                collects=self._collects,
                most_growth_bytes=self._most_growth_bytes,
            )
        except RuntimeError as error:
            raise LifecycleError(
                f"The flight recorder could not start: {error}. Stop what else profiles this "
                "process, then try again."
            ) from error
        self._watch.add_window(window)

    def collect(self, wants: int) -> None:
        """From now on collect ``wants`` of what the windows want."""
        self._collects = self._wants & wants
        _native.collect(self._watch.windows, self._collects)

    def close(self) -> None:
        """Close all, and forget what they have."""
        for window in self._watch.take_windows():
            _native.discard_window(window)

    def _begin_anew(self) -> None:
        """Lose what the ring has: a program that makes new functions for ever would fill memory."""
        self.close()
        self.began_anew += 1
