"""What is called after every optimizer's step while its Python calls are not seen.

It stands alone because torch.compile compiles it together with the step.
"""

from __future__ import annotations

from typing import Any

from opscope import _native


def report_optimizer_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Tell the recorder that ``optimizer`` has made a step."""
    import torch

    # A compiled step has no use for it, and must not break because of it.
    if not torch.compiler.is_compiling():
        _native.optimizer_step(optimizer)
