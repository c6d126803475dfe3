"""The settings of a profile, in torch.profiler's terms.

``opscope.profile``, torch.profiler where opscope records for it, and ``opscope run`` each make one
:class:`ProfileSettings`; from it come the recorder's options, what files say of a recording, and
what lists of events show. ``experimental_switches`` reads torch's ``_ExperimentalConfig``.
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
"""Switches of torch's ``_ExperimentalConfig``, each with a value that is not its default."""


def experimental_switches(config: Any) -> dict[str, Any]:
    """The switches of torch's ``_ExperimentalConfig``, by name; only those that this torch has.

    torch exposes them only through pickling, in an order that versions change. So the order is
    found out by setting one after the other.

    Args:
        config: torch's object, or its switches by name: then also those that this torch does not
            have yet, or no more.

    Raises:
        UsageError: a name is no switch's.
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
    places = _places_in_state(type(config))  # type: ignore[arg-type]
    return {name: state[place] for name, place in places.items()}


def with_switch(config: Any, name: str, value: Any) -> Any:
    """A copy of torch's ``_ExperimentalConfig`` with another value of one switch."""
    from torch._C._profiler import _ExperimentalConfig

    switches = {**experimental_switches(config), name: value}
    return _ExperimentalConfig(**switches)


@functools.cache
def _places_in_state(kind: Callable[..., Any]) -> dict[str, int]:
    default = kind().__getstate__()
    places = {}
    for name, value in SWITCHES.items():
        try:
            state = kind(**{name: value}).__getstate__()
        except TypeError:
            continue
        differing = [i for i, item in enumerate(state) if item != default[i]]
        if len(differing) == 1:
            places[name] = differing[0]
    return places


@dataclass(frozen=True, kw_only=True)
class ProfileSettings:
    """The arguments of :class:`opscope.profile` that say what to record."""

    record_shapes: bool = False  # arguments of operators
    profile_memory: bool = False  # allocations and frees
    with_stack: bool = False  # Python and C calls
    with_flops: bool = False  # floating point operations are counted, which needs the arguments
    with_modules: bool = False  # nn.Module and optimizer calls
    more: frozenset[str] = frozenset()  # options of the recorder that torch has no setting for
    all_threads: bool = True  # every thread of the process; otherwise only the one that starts
    # garbage collections, and Python calls of threads that begin meanwhile, only where a switch
    # asks for them
    as_torch: bool = False
    # the text of the program's own lines is kept with the calls made from them
    source_lines: bool = True
    # those of torch's ``_ExperimentalConfig``, by name
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
        """The request to the recorder."""
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
"""The settings that torch.profiler has too, by their names there."""
