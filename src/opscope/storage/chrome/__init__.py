"""Reading Chrome JSON, as torch.profiler (Kineto) and many other tools write it.

``read_json`` hands a file to the native reader, piece by piece, which makes columns of its events;
``vocabulary`` is what that has to know; ``collected`` has the columns. Activities of devices are
found (``devices``), processes are taken apart (``processes``), times judged (``plausibility``);
``assemble`` makes a Trace of each process: start order and parents, what names mean (``meaning``),
rows that belong together (``connections``).
"""

from opscope.storage.chrome.assemble import load_chrome_processes, load_chrome_trace

__all__ = ["load_chrome_processes", "load_chrome_trace"]
