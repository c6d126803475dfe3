"""Makes torch.compile trace opscope's annotations and skip opscope's other code.

torch.compile must know every context manager. It omits torch's ``record_function`` from graphs
unless ``torch._dynamo.config.capture_profiler_record_function`` is set; opscope's annotation is
traced like it. At graph breaks, torch.compile would compile opscope's other code once per state of
a profile, and turn NumPy arrays into operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import opscope._native as _native


def trace_as_torch_annotations(classes: Iterable[type]) -> None:
    """Let torch.compile, just imported, treat ``classes`` as torch's annotation.

    If torch has changed the functions used here, its graphs break at opscope's annotations instead.
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


def report_optimizer_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Report a step of ``optimizer`` to the recorder."""
    import torch

    # Not in a compiled step, whose graph would break here.
    if not torch.compiler.is_compiling():
        _native.optimizer_step(optimizer)


_PACKAGE = Path(__file__).parent.parent
_COMPILED = (_PACKAGE / "torch_api" / "annotate.py", Path(__file__))
"""Files with code that torch.compile inlines; in this file, ``report_optimizer_step``."""


def leave_uncompiled() -> None:
    """Let torch.compile, just imported, skip opscope's Python code.

    If torch has changed the functions used here, that code is compiled as any other.
    """
    try:
        from torch._dynamo import trace_rules

        rules: Any = trace_rules
        rules.SKIP_DIRS.extend(_beginnings_of_paths(_PACKAGE))
        rules._recompile_re()
    except (ImportError, AttributeError, TypeError, OSError):
        return


def _beginnings_of_paths(folder: Path) -> Iterator[str]:
    """Path prefixes of the files in ``folder``, without those in ``_COMPILED``."""
    for entry in folder.iterdir():
        if any(entry in file.parents for file in _COMPILED):
            yield from _beginnings_of_paths(entry)
        elif entry.is_dir():
            yield f"{entry.as_posix()}/"
        elif entry not in _COMPILED:
            yield entry.as_posix()
