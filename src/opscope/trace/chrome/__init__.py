"""Reading Chrome JSON, as torch.profiler (Kineto) and many other tools write it.

``read_json`` takes the file apart, event by event; ``collect`` (with ``numbers`` and
``arguments``) turns events into growing columns; ``assemble`` makes them a Trace: start order and
parents, what names mean (``meaning``, ``python_calls``), rows that belong together
(``connections``).
"""

from opscope.trace.chrome.assemble import load_chrome_trace

__all__ = ["load_chrome_trace"]
