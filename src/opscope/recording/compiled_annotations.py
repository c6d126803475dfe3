"""What torch.compile makes of our annotations: what it makes of ``torch.profiler.record_function``.

Compiled code does not run Python's ``with``, so torch.compile has to know every context manager it
meets. It knows torch's ``record_function``, and leaves it out of the graph unless
``torch._dynamo.config.capture_profiler_record_function`` says otherwise. Ours is traced as if it
were torch's: left out or kept by the same setting, in every version of torch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def trace_as_torch_annotations(classes: Iterable[type]) -> None:
    """Have torch.compile, which was imported just now, treat ``classes`` as torch's annotation.

    Where torch has changed what this builds on, its graphs break at our annotations instead.
    """
    try:
        from torch._dynamo.decorators import substitute_in_graph
        from torch._dynamo.variables.builder import VariableBuilder

        for annotation in classes:
            substitute_in_graph(annotation, skip_signature_check=True, is_embedded_type=True)(
                _torch_annotation
            )
            VariableBuilder._type_dispatch()[annotation] = _trace_existing
    except (ImportError, AttributeError, TypeError, ValueError):
        return


def _torch_annotation(name: str, args: str | None = None) -> Any:
    from torch.profiler import record_function

    return record_function(name, args)


def _trace_existing(builder: Any, annotation: Any) -> Any:
    """The variable for an annotation that was made before the compiled function ran."""
    from torch._dynamo.guards import GuardBuilder
    from torch._dynamo.variables import ConstantVariable, TorchCtxManagerClassVariable
    from torch.profiler import record_function

    builder.install_guards(GuardBuilder.ID_MATCH)
    arguments = [ConstantVariable.create(text) for text in (annotation.name, annotation.args)]
    return TorchCtxManagerClassVariable(record_function).call_function(builder.tx, arguments, {})
