"""One event in torch's shape."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opscope.base.printable import printable
from opscope.errors import UsageError
from opscope.torch_api.event.formatted_times import FormattedTimesMixin, deprecated
from opscope.torch_api.event.parts import (
    EventMetadata,
    Interval,
    Kernel,
    is_cpu,
    metadata_from_kineto,
)
from opscope.torch_api.event.parts import device_type as _device_type

if TYPE_CHECKING:
    from opscope.torch_api.event.attributes import Reader
    from opscope.torch_api.event.listed_trace import ListedTrace


class FunctionEvent(FormattedTimesMixin):
    """One event, with torch's attributes; times are microseconds, memory is bytes.

    Events of a trace read an attribute from the columns at its first use, and store it.
    """

    id: int
    node_id: int
    name: str
    overload_name: str
    trace_name: str | None
    time_range: Interval
    thread: int
    fwd_thread: int | None
    kernels: list[Kernel]
    count: int
    cpu_children: list[FunctionEvent]
    cpu_parent: FunctionEvent | None
    input_shapes: list[list[int]]
    concrete_inputs: list[Any]
    kwinputs: dict[str, Any]
    stack: list[str]
    scope: int
    use_device: str | None
    cpu_memory_usage: int
    device_memory_usage: int
    is_async: bool
    is_remote: bool
    sequence_nr: int
    device_type: Any
    device_index: int
    device_resource_id: int
    is_legacy: bool
    flops: int | None
    is_user_annotation: bool | None
    is_python_function: bool
    activity_type: str | None
    self_cpu_percent: Any
    total_cpu_percent: Any
    total_device_percent: Any
    flow_id: int | None
    flow_type: int | None
    flow_start: bool | None
    external_id: int
    linked_correlation_id: int
    event_metadata: EventMetadata | None
    structured_input_shapes: list[Any]
    structured_input_strides: list[Any]
    input_dtypes: list[str]
    python_id: int
    python_parent_id: int
    python_module_id: int
    metadata: dict[str, Any] | None
    _metadata_json: str | None

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: Any = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: Any = None,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: Any = None,
        kwinputs: Any = None,
        is_user_annotation: bool | None = False,
        is_python_function: bool = False,
        activity_type: str | None = None,
        metadata_json: str | None = None,
        flow_id: int | None = None,
        flow_type: int | None = None,
        flow_start: bool | None = None,
        external_id: int = 0,
        linked_correlation_id: int = 0,
        extra_meta: Mapping[str, str] | None = None,
        structured_input_shapes: Any = None,
        structured_input_strides: Any = None,
        input_dtypes: Any = None,
        python_id: int = -1,
        python_parent_id: int = -1,
        python_module_id: int = -1,
        typed_metadata: dict[str, Any] | None = None,
    ) -> None:
        values = dict(locals())
        del values["self"], values["start_us"], values["end_us"], values["extra_meta"]
        values["metadata"] = values.pop("typed_metadata")
        values["_metadata_json"] = values.pop("metadata_json")
        values["time_range"] = Interval(start_us, end_us)
        values["device_type"] = _device_type(0) if device_type is None else device_type
        if device_resource_id is None:
            values["device_resource_id"] = thread
        values["event_metadata"] = metadata_from_kineto(extra_meta) if extra_meta else None
        vars(self).update(values, kernels=[], count=1, cpu_children=[], cpu_parent=None)
        self.self_cpu_percent = self.total_cpu_percent = self.total_device_percent = -1

    @classmethod
    def of_trace(cls, source: ListedTrace, position: int) -> FunctionEvent:
        """The event at ``position`` of a trace's listed rows; attributes are read later."""
        event = cls.__new__(cls)
        vars(event).update(_source=source, _position=position)
        return event

    def __getattr__(self, name: str) -> Any:
        # Python calls this only until the attribute has been read from the trace.
        source = vars(self).get("_source")
        if source is None or name not in (readers := _readers()):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = readers[name](source, self._position)
        vars(self)[name] = value
        return value

    def __getstate__(self) -> dict[str, Any]:
        # A pickled or copied event has all its attributes and no reference to the trace.
        state = {name: getattr(self, name) for name in _readers()}
        return {**state, **{k: v for k, v in vars(self).items() if k not in _TRACE_LINK}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def append_kernel(self, name: str, device: int, duration: float) -> None:
        """Add device work that this event launched."""
        self._require_cpu()
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add an event directly inside this one."""
        self._require_cpu()
        child._require_cpu()
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the event that directly contains this one."""
        self._require_cpu()
        parent._require_cpu()
        self.cpu_parent = parent

    def _require_cpu(self) -> None:
        if not is_cpu(self.device_type):
            raise UsageError(
                f"{self.name!r} is a {self.device_type} event: only CPU events have kernels, "
                "parents and children. Pass the CPU event that launched it."
            )

    @property
    def key(self) -> str:
        """Key of the event's group in averages."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Duration; 0 for a device event."""
        return self.time_range.elapsed_us() if is_cpu(self.device_type) else 0

    @property
    def self_cpu_time_total(self) -> float:
        """Duration without that of children; 0 for asynchronous events."""
        if not self._has_self:
            return 0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def device_time_total(self) -> float:
        """Microseconds of device work launched in this event; a device event's own duration."""
        if self.is_async or not self.use_device:
            return 0
        if not is_cpu(self.device_type):
            return self.time_range.elapsed_us()
        source = vars(self).get("_source")
        if source is not None:  # already summed over the subtree, without recursion
            total: float = source.device_time_total_us(self._position)
            return total
        own = sum(kernel.duration for kernel in self.kernels)
        return own + sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """Microseconds of device work launched in this event outside its children."""
        if self.is_async or not self.use_device or not is_cpu(self.device_type):
            return self.device_time_total
        inner = sum(child.device_time_total for child in self.cpu_children)
        return self.device_time_total - inner

    @property
    def self_cpu_memory_usage(self) -> int:
        """Net host bytes outside children; 0 for asynchronous and device events."""
        if not self._has_self:
            return 0
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def self_device_memory_usage(self) -> int:
        """Net device bytes outside children; 0 for asynchronous and device events."""
        if not self._has_self:
            return 0
        inner = sum(child.device_memory_usage for child in self.cpu_children)
        return self.device_memory_usage - inner

    @property
    def _has_self(self) -> bool:
        return not self.is_async and is_cpu(self.device_type)

    @property
    def metadata_json(self) -> str | None:
        """Deprecated: use ``event_metadata``."""
        warnings.warn("Use event_metadata instead", FutureWarning, stacklevel=2)
        return self._metadata_json

    self_cuda_memory_usage = deprecated("self_device_memory_usage")
    cuda_time_total = deprecated("device_time_total")
    self_cuda_time_total = deprecated("self_device_time_total")

    def __repr__(self) -> str:
        children = [child.id for child in self.cpu_children]
        return printable(
            f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
            f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start} end_us={self.time_range.end} "
            f"cpu_children={children} {self.use_device}_time={self.device_time_str} "
            f"thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} "
            f"{self.use_device}_memory_usage={self.device_memory_usage} "
            f"is_async={self.is_async} is_remote={self.is_remote} seq_nr={self.sequence_nr} "
            f"is_legacy={self.is_legacy}>"
        )


def _readers() -> Mapping[str, Reader]:
    # Imported at the first use of an event: the classes replace torch's in every recorded program.
    from opscope.torch_api.event.attributes import READERS

    return READERS


_TRACE_LINK = ("_source", "_position")
