"""Results of native passes for random programs are those that plain implementations also gave.

Digests of these results are beside this file; they were made while a second implementation of every
pass existed. After an intended change, run this file with ``PYTHONPATH=tests`` to make new ones.
"""

import json
import zlib
from pathlib import Path

import numpy as np

from opscope.api.trace import Trace
from support.passes import said_of
from support.random_program import random_program

DIGESTS = Path(__file__).with_name("native_passes.json")
PROGRAMS = {
    **{f"{seed} in order": (seed, 120, seed % 2 == 0, True, True) for seed in range(20)},
    **{f"{seed} as they come": (seed, 90, True, False, seed % 2 == 0) for seed in range(8)},
    "slow": (9, 100, True, True, True, 3_000_000),
    "nothing": (3, 0),
    "one event": (3, 1),
    "many": (3, 12_000),
}


def digests_of(trace):
    return {name: zlib.crc32(text_of(columns).encode()) for name, columns in said_of(trace).items()}


def text_of(columns):
    return json.dumps([np.asarray(one).tolist() for one in columns])


def few_columns():
    """Only columns that have no default."""
    whole = random_program(5, 300)
    kept = ("thread", "parent", "name", "kind", "start_ns", "duration_ns")
    return Trace({"events": {name: whole.events[name] for name in kept}}, whole.names, {})


def all_digests():
    found = {name: digests_of(random_program(*of)) for name, of in PROGRAMS.items()}
    return found | {"few columns": digests_of(few_columns())}


def test_results_for_random_programs_are_unchanged():
    wrong = [
        (program, name)
        for (program, found), known in zip(
            all_digests().items(), json.loads(DIGESTS.read_text()).values(), strict=True
        )
        for name in known
        if found[name] != known[name]
    ]
    assert not wrong


if __name__ == "__main__":
    lines = [f" {json.dumps(of)}: {json.dumps(found)}" for of, found in all_digests().items()]
    DIGESTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
