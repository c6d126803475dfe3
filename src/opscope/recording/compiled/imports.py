"""Listening to the parts of torch.compile, each as soon as it is imported."""

from __future__ import annotations

from opscope.launch.torch_import import when_imported
from opscope.recording.compiled import code_generation
from opscope.recording.compiled.compilations import listen_to_compilations
from opscope.recording.compiled.graphs import notice_loaded_graphs


def listen_to_compiling() -> None:
    """Know from now on what is compiled and loaded; dynamo's utilities were imported just now."""
    listen_to_compilations()
    when_imported("torch._inductor.codecache", notice_loaded_graphs)
    when_imported("torch._inductor.codegen.cpp", code_generation.listen_to_cpp)
    when_imported("torch._inductor.codegen.simd", code_generation.listen_to_device_kernels)
    when_imported("torch._inductor.ir", code_generation.listen_to_other_calls)
