"""The settings of a profile, in torch.profiler's terms.

``opscope.profile``, torch.profiler under the drop-in, and ``opscope run`` each make one
:class:`ProfileSettings`. It has the recorder's options, the metadata of files, and the columns of
event lists. ``experimental_switches`` reads torch's ``_ExperimentalConfig``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opscope.errors import UsageError
from opscope.recording.sources import RecordingOptions, switches
from opscope.torch_api.activities import CPU_KINDS, ChosenActivities

SWITCHES: dict[str, Any] = {
    "profiler_metrics": ["a metric"],
    "profiler_measure_per_kernel": True,
    "verbose": True,
    "performance_events": ["an event"],
    "enable_cuda_sync_events": True,
    "adjust_profiler_step": True,
    "disable_external_correlation": True,
    "profile_all_threads": True,
    "capture_overload_names": True,
    "record_python_gc_info": True,
    "expose_kineto_event_metadata": True,
    "custom_profiler_config": "a backend",
    "adjust_timestamps": True,
    "trace_only": True,
}
"""Switches of torch's ``_ExperimentalConfig``, each with a non-default value."""


def experimental_switches(config: Any) -> dict[str, Any]:
    """The switches of torch's ``_ExperimentalConfig`` by name, if this torch has them.

    torch exposes them only through pickling, in an order that depends on its version. Setting one
    after the other shows the order.

    Args:
        config: torch's object, or a dict of switches by name, also of other torch versions.

    Raises:
        UsageError: a name is not a switch.
    """
    if config is None:
        return {}
    if isinstance(config, Mapping):
        unknown = sorted(map(str, set(config) - set(SWITCHES)))
        if unknown:
            raise UsageError(
                f"experimental_config: there is no switch {', '.join(unknown)}; there are "
                f"{', '.join(SWITCHES)}."
            )
        return dict(config)
    state = config.__getstate__()
    indexes = _indexes_in_state(type(config))  # type: ignore[arg-type]
    return {name: state[index] for name, index in indexes.items()}


def with_switch(config: Any, name: str, value: Any) -> Any:
    """A copy of torch's ``_ExperimentalConfig`` with one switch changed."""
    from torch._C._profiler import _ExperimentalConfig

    switches = {**experimental_switches(config), name: value}
    return _ExperimentalConfig(**switches)


@functools.cache
def _indexes_in_state(kind: Callable[..., Any]) -> dict[str, int]:
    default = kind().__getstate__()
    indexes = {}
    for name, value in SWITCHES.items():
        try:
            state = kind(**{name: value}).__getstate__()
        except TypeError:
            continue
        differing = [i for i, item in enumerate(state) if item != default[i]]
        if len(differing) == 1:
            indexes[name] = differing[0]
    return indexes


@dataclass(frozen=True, kw_only=True)
class ProfileSettings:
    """Arguments of :class:`opscope.profile` that select what to record."""

    record_shapes: bool = False  # arguments of operators
    profile_memory: bool = False  # allocations and frees
    with_stack: bool = False  # Python and C calls
    with_flops: bool = False  # count of floating point operations, which needs arguments
    with_modules: bool = False  # nn.Module and optimizer calls
    more: frozenset[str] = frozenset()  # recorder options without a setting in torch
    all_threads: bool = True  # every thread of the process; else only the one that starts it
    # garbage collections, and calls on threads that begin during the recording, only with a switch
    as_torch: bool = False
    source_lines: bool = True  # text of the program's own lines with calls
    switches: Mapping[str, Any] = field(default_factory=dict)  # of torch, by name

    @classmethod
    def of(cls, arguments: Mapping[str, bool], **rest: Any) -> ProfileSettings:
        """Settings from arguments of a profile, torch's or opscope's; ``rest`` unchanged."""
        flags: dict[str, Any] = {name: arguments[name] for name in FLAGS if name in arguments}
        options = {s.parameter: s.option for s in switches()}
        own = (options[name] for name, is_set in arguments.items() if is_set and name not in FLAGS)
        return cls(**flags, more=frozenset(own), **rest)

    @property
    def arguments(self) -> dict[str, bool]:
        """Arguments of :class:`opscope.profile` for these settings."""
        more = {s.parameter: True for s in switches() if s.option in self.more}
        return {**self.flags, **more, **({} if self.source_lines else {"source_lines": False})}

    @property
    def flags(self) -> dict[str, bool]:
        """Arguments that torch.profiler has too, by torch's name."""
        return {name: getattr(self, name) for name in FLAGS}

    def metadata(self) -> dict[str, bool]:
        """Metadata of files, in torch's form: the flags that are set."""
        return {name: True for name, is_set in self.flags.items() if is_set}

    def list_options(self) -> dict[str, bool]:
        """Options of the event list; see ``make_event_list``."""
        names = ("profile_memory", "with_flops", "with_stack")
        return {name: self.flags[name] for name in names}

    def recording_options(self, activities: ChosenActivities) -> RecordingOptions:
        """Options of the recorder."""
        options = {s.option: self.flags[s.parameter] for s in switches() if s.parameter in FLAGS}
        options |= {"operators": activities.cpu, "annotations": activities.cpu}
        options |= dict.fromkeys(self.more, True)
        kinds = activities.cpu_kinds
        for kind, option in CPU_KINDS.items():
            options[option] &= kinds is None or kind in kinds
        options["shapes"] |= self.with_flops
        return RecordingOptions(
            **options,
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
"""Settings that torch.profiler has too, by torch's names."""
