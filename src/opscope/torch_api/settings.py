"""What a profile is asked to record, in torch.profiler's terms: one object, whoever asks.

``opscope.profile``, torch.profiler where opscope records for it, and ``opscope run`` each make one;
from it come the recorder's options, what files say of a recording, and what lists of events show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opscope.recording.sources import RecordingOptions, switches
from opscope.torch_api.activities import CPU_KINDS, ChosenActivities


@dataclass(frozen=True, kw_only=True)
class ProfileSettings:
    """The arguments of :class:`opscope.profile` that say what to record.

    Attributes:
        record_shapes: arguments of operators.
        profile_memory: allocations and frees.
        with_stack: Python and C calls.
        with_flops: floating point operations are counted, which needs the arguments.
        with_modules: nn.Module and optimizer calls.
        more: options of the recorder that torch has no setting for.
        all_threads: every thread of the process; otherwise only the one that starts.
        as_torch: garbage collections, and Python calls of threads that begin meanwhile, only where
            a switch asks for them.
        source_lines: the text of the program's own lines is kept with the calls made from them.
        switches: those of torch's ``_ExperimentalConfig``, by name.
    """

    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    with_modules: bool = False
    more: frozenset[str] = frozenset()
    all_threads: bool = True
    as_torch: bool = False
    source_lines: bool = True
    switches: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, arguments: Mapping[str, bool], **rest: Any) -> ProfileSettings:
        """The settings for arguments of a profile, torch's or our own; ``rest`` as they are."""
        flags: dict[str, Any] = {name: arguments[name] for name in FLAGS if name in arguments}
        options = {s.parameter: s.option for s in switches()}
        own = (options[name] for name, is_set in arguments.items() if is_set and name not in FLAGS)
        return cls(**flags, more=frozenset(own), **rest)

    @property
    def arguments(self) -> dict[str, bool]:
        """What :class:`opscope.profile` is given for these."""
        more = {s.parameter: True for s in switches() if s.option in self.more}
        return {**self.flags, **more, **({} if self.source_lines else {"source_lines": False})}

    @property
    def flags(self) -> dict[str, bool]:
        """What torch.profiler has too, by its name there: arguments of a profile."""
        return {name: getattr(self, name) for name in FLAGS}

    def metadata(self) -> dict[str, bool]:
        """What files say of a recording, as torch's do: the flags that are set."""
        return {name: True for name, is_set in self.flags.items() if is_set}

    def list_options(self) -> dict[str, bool]:
        """How events are listed; see ``make_event_list``."""
        shown = ("profile_memory", "with_flops", "with_stack")
        return {name: self.flags[name] for name in shown}

    def recording_options(self, activities: ChosenActivities) -> RecordingOptions:
        """What the recorder is asked for."""
        asked = {s.option: self.flags[s.parameter] for s in switches() if s.parameter in FLAGS}
        asked |= {"operators": activities.cpu, "annotations": activities.cpu}
        asked |= dict.fromkeys(self.more, True)
        kinds = activities.cpu_kinds
        for kind, option in CPU_KINDS.items():
            asked[option] &= kinds is None or kind in kinds
        asked["shapes"] |= self.with_flops
        return RecordingOptions(
            **asked,
            overloads="outputs" in self.more or self._is_on("capture_overload_names"),
            gc_pauses=not self.as_torch or self._is_on("record_python_gc_info"),
            compiled=not self.as_torch,
            all_threads=self.all_threads,
            thread_samples=not self.as_torch,
            new_threads=not self.as_torch or self._is_on("profile_all_threads"),
            gpu=activities.cuda and activities.device_kinds != frozenset(),
            gpu_sync=self._is_on("enable_cuda_sync_events"),
            source_lines=self.source_lines,
        )

    def _is_on(self, switch: str) -> bool:
        return bool(self.switches.get(switch))


FLAGS = ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops")
"""The settings that torch.profiler has too, by their names there."""
