"""Reading execution traces, as torch's ExecutionTraceObserver and opscope write them.

``read_json``: the file, node by node, in bounded memory; ``kinds``: what a value is, such as
``GenericList[Tensor(float),Int]``; ``values``: values, shapes, types, strides to rows of tensors
and scalars; ``collect``: nodes to growing columns; ``assemble``: columns to a Trace.
"""

from opscope.trace.execution_trace.assemble import load_execution_trace

__all__ = ["load_execution_trace"]
