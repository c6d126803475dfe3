"""``_KinetoEvent``: one event as torch's profiler hands it to Python."""

from __future__ import annotations

from typing import Any

from opscope.torch_api.event.function_event import FunctionEvent


class KinetoEvent:
    """One event behind the methods of torch's ``_KinetoEvent``. Times are Unix nanoseconds."""

    def __init__(self, event: FunctionEvent, origin_ns: int, first_id: int) -> None:
        self._event = event
        self._origin_ns = origin_ns
        self._first_id = first_id

    def name(self) -> str:
        """As recorded."""
        return self._event.trace_name or self._event.name

    def overload_name(self) -> str:
        """Of the operator; empty where it was not recorded."""
        return self._event.overload_name

    def start_ns(self) -> int:
        """Start."""
        return self._origin_ns + round(self._event.time_range.start * 1000)

    def end_ns(self) -> int:
        """End."""
        return self._origin_ns + round(self._event.time_range.end * 1000)

    def duration_ns(self) -> int:
        """Length."""
        return self.end_ns() - self.start_ns()

    def correlation_id(self) -> int:
        """Unique in the process."""
        return self._first_id + int(self._event.id) - 1

    def external_id(self) -> int:
        """The same id; there is one id space."""
        return self.correlation_id()

    def linked_correlation_id(self) -> int:
        """Of the operator that launched it, for device events."""
        linked = int(self._event.linked_correlation_id)
        return self._first_id + linked - 1 if linked > 0 else 0

    def device_type(self) -> Any:
        """``torch.autograd.DeviceType``."""
        return self._event.device_type

    def device_index(self) -> int:
        """Of its device."""
        return self._event.device_index

    def device_resource_id(self) -> int:
        """Thread or stream."""
        return self._event.device_resource_id

    def start_thread_id(self) -> int:
        """torch's id of the thread it started on."""
        return self._event.thread

    def end_thread_id(self) -> int:
        """The same unless it is asynchronous."""
        return self._event.thread

    def fwd_thread_id(self) -> int:
        """torch's id of the thread that ran the forward."""
        return self._event.fwd_thread or 0

    def sequence_nr(self) -> int:
        """Shared by forward and backward; -1 none."""
        return self._event.sequence_nr

    def scope(self) -> int:
        """``RecordScope`` as a number."""
        return self._event.scope

    def shapes(self) -> list[list[int]]:
        """Shapes of the arguments."""
        return self._event.input_shapes

    def dtypes(self) -> list[str]:
        """Types of the arguments."""
        return list(self._event.input_dtypes or [])

    def concrete_inputs(self) -> list[Any]:
        """Values of scalar arguments."""
        return self._event.concrete_inputs

    def kwinputs(self) -> dict[str, Any]:
        """Keyword arguments."""
        return self._event.kwinputs

    def stack(self) -> list[str]:
        """Python stack, innermost first."""
        return self._event.stack

    def flops(self) -> int:
        """Estimated operations; 0 unknown."""
        return self._event.flops or 0

    def is_async(self) -> bool:
        """Ended on another thread than it began on."""
        return self._event.is_async

    def is_user_annotation(self) -> bool:
        """Named by the user."""
        return bool(self._event.is_user_annotation)

    def is_python_function(self) -> bool:
        """A Python call."""
        return self._event.is_python_function

    def is_hidden_event(self) -> bool:
        """Never: what is not to be seen is not in the trace."""
        return False

    def activity_type(self) -> str:
        """Kineto's name for the kind of event."""
        return self._event.activity_type or ""

    def nbytes(self) -> int:
        """Allocated or, negative, freed; 0 for what is not memory."""
        return self._event.cpu_memory_usage + self._event.device_memory_usage

    def cuda_elapsed_us(self) -> int:
        """Device time measured with CUDA events: never used here."""
        return 0

    privateuse1_elapsed_us = cuda_elapsed_us

    def structured_input_shapes(self) -> list[Any]:
        """Shapes of the arguments, those of tensor lists too."""
        return self._event.structured_input_shapes or []

    def structured_input_strides(self) -> list[Any]:
        """Strides of the arguments, those of tensor lists too."""
        return self._event.structured_input_strides or []

    def python_id(self) -> int:
        """Number of a Python call; -1 for anything else."""
        return self._event.python_id

    def python_parent_id(self) -> int:
        """Number of the Python call around it; -1 none."""
        return self._event.python_parent_id

    def python_module_id(self) -> int:
        """Number of an nn.Module within its class; -1 none."""
        return self._event.python_module_id

    def flow_id(self) -> int:
        """Number of the arrow from forward to backward it is at an end of; 0 none."""
        return self._event.flow_id or 0

    def flow_type(self) -> int:
        """Kind of that arrow."""
        return self._event.flow_type or 0

    def flow_start(self) -> bool:
        """Whether the arrow starts here."""
        return bool(self._event.flow_start)

    def extra_meta(self) -> dict[str, str]:
        """What else is known of a device event: nothing that ``event_metadata`` has not."""
        return {}

    def typed_metadata(self) -> dict[str, Any]:
        """The same as ``metadata_json``, as values (torch 2.14)."""
        return self._event.metadata or {}

    def metadata_json(self) -> str:
        """What the event's file says of it beyond its attributes, where that was asked for."""
        return self._event._metadata_json or ""
