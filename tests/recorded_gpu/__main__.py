"""``python -m tests.recorded_gpu FILE...``: play files to the collector and compare.

Each file is played as several releases of CUPTI would report it: as it was; in buffers that come
late and out of order from several threads; with its kernels in a CUDA graph; with records lost.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from tests.support.fake_cupti import build_fake, header_folders

JOBS = Path(__file__).parent / "jobs"


def main() -> int:
    """Play each file in each layout, a process per layout; 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.recorded_gpu", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="Kineto files; those here if none")
    parser.add_argument("--layout", action="append", help="a release of CUDA; all that there are")
    parser.add_argument("--launches", type=int, default=0, help="how many launches to play besides")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    options = parser.parse_args()
    files = options.files or sorted(JOBS.glob("*.json.gz"))
    if options.inside:
        from tests.recorded_gpu.session import play_files

        return play_files(options.inside, files, options.launches)
    known = header_folders()
    failed = 0
    for layout in options.layout or sorted(known):
        if layout not in known:
            sys.exit(f"no CUPTI headers of {layout}: there are {json.dumps(sorted(known))}")
        library = build_fake(known[layout])
        command = [sys.executable, "-m", "tests.recorded_gpu", "--inside", str(library)]
        command += [f"--launches={options.launches}", *map(str, files)]
        print(f"== CUPTI of CUDA {layout}", flush=True)
        failed |= subprocess.run(command, check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
