"""Reading Chrome JSON of torch.profiler (Kineto) and many other tools.

``native_columns`` passes a file in pieces to the native reader, which makes columns of its events
with the terms in ``vocabulary``. ``devices`` identifies device activities,
``processes`` separates processes, ``plausibility`` checks times. ``assemble`` makes a trace of each
process: order, parents, attributes of names (``event_names``), related rows (``connections``).
"""

from opscope.storage.chrome.assemble import load_chrome_processes, load_chrome_trace

__all__ = ["load_chrome_processes", "load_chrome_trace"]
