"""The average of events of one name, with torch's attributes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opscope.base.printable import printable
from opscope.errors import UsageError
from opscope.torch_api.event.formatted_times import FormattedTimesMixin
from opscope.torch_api.event.function_event import FunctionEvent
from opscope.torch_api.event.parts import SUMS, device_type, sums_in_torch_units

if TYPE_CHECKING:
    from opscope.analysis.torch_listing.averages import Averages
    from opscope.torch_api.event.listed_trace import ListedTrace

_FROM_FIRST_EVENT = (
    "key",
    "node_id",
    "is_async",
    "is_remote",
    "cpu_parent",
    "cpu_children",
    "overload_name",
    "input_shapes",
    "stack",
    "scope",
    "device_type",
    "is_legacy",
    "use_device",
    "is_user_annotation",
)


class FunctionEventAvg(FormattedTimesMixin):
    """Sums over events of one key; times are microseconds, memory is bytes."""

    cpu_children: list[FunctionEvent] | None
    cpu_parent: FunctionEvent | None

    def __init__(self) -> None:
        self.key: str | None = None
        self.count: int = 0
        self.node_id: int = 0
        self.is_async: bool = False
        self.is_remote: bool = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.self_device_time_total: float = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.cpu_memory_usage: int = 0
        self.device_memory_usage: int = 0
        self.self_cpu_memory_usage: int = 0
        self.self_device_memory_usage: int = 0
        self.device_type: Any = device_type(0)
        self.is_legacy: bool = False
        self.flops: int = 0
        self.is_user_annotation: bool | None = False
        self._relatives: Callable[[], FunctionEvent] | None = None

    def __getattr__(self, name: str) -> Any:
        # Parent and children of the first event are created on access.
        if name not in ("cpu_parent", "cpu_children"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        first = vars(self).get("_relatives")
        value = getattr(first(), name) if first is not None else None
        setattr(self, name, value)
        return value

    def __getstate__(self) -> dict[str, Any]:
        relatives = {"cpu_parent": self.cpu_parent, "cpu_children": self.cpu_children}
        return {**vars(self), **relatives, "_relatives": None}

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or an average, of the same key."""
        if not isinstance(other, FunctionEvent | FunctionEventAvg):
            raise UsageError(
                f"Only events can be averaged, not {type(other).__name__}. Pass a FunctionEvent or "
                "a FunctionEventAvg."
            )
        if self.key is None:
            for name in _FROM_FIRST_EVENT:
                setattr(self, name, getattr(other, name))
        if other.key != self.key:
            raise UsageError(
                f"{other.key!r} cannot be added to the average of {self.key!r}. Start another "
                "FunctionEventAvg for it."
            )
        for name in SUMS:
            setattr(self, name, (getattr(self, name) or 0) + (getattr(other, name) or 0))
        self.count += other.count
        return self

    def __iadd__(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return printable(
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage}>"
        )


class AverageObjects:
    """Groups of ``averages`` as torch's ``key_averages()`` returns them, created on access."""

    def __init__(self, averages: Averages, source: ListedTrace) -> None:
        self.averages = averages
        self.source = source
        self._sums = sums_in_torch_units(averages.quantities, len(averages.count))
        self._created: dict[int, FunctionEventAvg] = {}

    def __len__(self) -> int:
        return len(self.averages)

    @property
    def are_untouched(self) -> bool:
        """Whether no object was created, so that the caller cannot have changed any."""
        return not self._created

    def at(self, group: int) -> FunctionEventAvg:
        """The object of a group; always the same one."""
        average = self._created.get(group)
        if average is None:
            average = self._created[group] = self._make(group)
        return average

    def _make(self, group: int) -> FunctionEventAvg:
        averages, source = self.averages, self.source
        position = int(averages.first[group])
        first = source.event(position)
        average = FunctionEventAvg()
        vars(average).update({name: values[group].item() for name, values in self._sums.items()})
        average.key, average.count = averages.names[group], int(averages.count[group])
        average.node_id, average.use_device = -1, source.use_device
        average.is_async, average.scope = first.is_async, first.scope
        average.device_type = first.device_type
        average.is_user_annotation = first.is_user_annotation
        average.overload_name = averages.overload_names[group] if averages.overload_names else ""
        average.input_shapes = averages.input_shapes[group] if averages.input_shapes else ""
        average.stack = averages.stacks[group] if averages.stacks else []
        average._relatives = lambda: source.event(position)
        return average
