"""``python -m benchmarks.device_use FILE... --hta PYTHON``: questions about a GPU, here and in HTA.

HolisticTraceAnalysis has to be installed in the environment of ``PYTHON``. Both read the same file
in processes of their own, in turn; printed are what they say, and the medians of the time of
reading and of answering, and of the memory at its peak beyond that of an empty interpreter. HTA is
asked for its breakdowns of time and of idle time, the overlap of communication and computation,
statistics of launches, lengths of queues, and kernels by kind.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

_HTA = """
import json, logging, os, resource, sys, time, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis

start = time.perf_counter()
folder = os.path.dirname(sys.argv[1])
trace = TraceAnalysis({0: sys.argv[1]}, folder, include_last_profiler_step=True)
read = time.perf_counter()
times = trace.get_temporal_breakdown(visualize=False).iloc[0]
idle = trace.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
overlap = trace.get_comm_comp_overlap(visualize=False).iloc[0, 1]
delays = trace.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)[0]
queues = trace.get_queue_length_summary(ranks=[0])
trace.get_gpu_kernel_breakdown(visualize=False)
done = time.perf_counter()
print(json.dumps({
    "read_s": read - start,
    "answered_s": done - read,
    "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    "busy_us": float(times["compute_time(us)"] + times["non_compute_time(us)"]),
    "computing_us": float(times["compute_time(us)"]),
    "hidden_percent": float(overlap),
    "deepest": {int(row[1]): int(at["max"]) for row, at in queues["queue_length"].iterrows()},
    "launches": len(delays),
}))
"""

_OURS = """
import json, resource, sys, time
from opscope.analysis.device_use.device_use import find_device_use
from opscope.recorder.streams.load import load_trace

start = time.perf_counter()
trace = load_trace(sys.argv[1])
read = time.perf_counter()
(device,) = find_device_use(trace, "all").devices
done = time.perf_counter()
print(json.dumps({
    "read_s": read - start,
    "answered_s": done - read,
    "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    "busy_us": device.busy_ns / 1000,
    "computing_us": device.computing_ns / 1000,
    "hidden_percent": 100 * device.hidden_communicating_ns / max(device.communicating_ns, 1),
    "deepest": {stream.stream: stream.depth_max for stream in device.streams},
    "launches": sum(stream.launches for stream in device.streams),
}))
"""


_EMPTY = """
import json, resource
print(json.dumps({"peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--hta", required=True, help="a Python that has HTA")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for file in options.files:
        print(f"{file.name}, {file.stat().st_size / 1e6:.1f} MB")
        compare(file.resolve(), options.hta, options.rounds)


def compare(file: Path, hta: str, rounds: int) -> None:
    """Ask both about one file, in turn."""
    programs = {"opscope": (sys.executable, _OURS), "HTA": (hta, _HTA)}
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in programs}
    empty = {name: run(python, _EMPTY, file) for name, (python, _) in programs.items()}
    for _ in range(rounds):
        for name, (python, program) in programs.items():
            answer = run(python, program, file)
            answer["peak_bytes"] -= empty[name]["peak_bytes"]
            answers[name].append(answer)
    for name, given in answers.items():
        print(f"  {name}: {json.dumps(given[-1])}")
    for what, of in (("read_s", 1.0), ("answered_s", 1.0), ("peak_bytes", 2**20)):
        ours, theirs = (
            statistics.median(answer[what] for answer in answers[name]) / of for name in programs
        )
        unit = "MiB" if what == "peak_bytes" else "s"
        print(f"  {what}: {ours:.3f} / {theirs:.3f} {unit}, ratio {ours / theirs:.3f}")


def run(python: str, program: str, file: Path) -> dict[str, Any]:
    """What a program says of a file."""
    command = [python, "-c", program, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


if __name__ == "__main__":
    main()
