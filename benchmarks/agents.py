"""``python -m benchmarks.agents``: does an agent's first question name the fault of a program?

Records programs of ``benchmarks.advice`` and asks about each over ``opscope mcp`` and its client.
Right is the verdict whose first finding and line are those of the planted fault. Every query that
an answer shows is asked as well, and has to return the numbers that the answer shows.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

import benchmarks.advice.child  # noqa: F401 (which lists the programs)
import opscope
from benchmarks.advice.program import PROGRAMS

_SERVER = StdioServerParameters(command=sys.executable, args=["-m", "opscope", "mcp"])
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents", description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="of programs, drawn by chance")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", nargs=2, metavar=("PROGRAM", "FOLDER"), help="record one")
    parser.add_argument("--trace", help="time questions about this trace instead")
    options = parser.parse_args()
    if options.record:
        return _record(*options.record)
    asyncio.run(_time(options.trace) if options.trace else _judge_all(options.count, options.seed))


def _record(name: str, folder: str) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    body, _ = PROGRAMS[name].make()
    body()  # what happens only once has happened
    with opscope.profile(
        record_shapes=True, profile_memory=True, with_modules=True, with_stack=True
    ) as profile:
        body()
    profile.trace.save(folder)


async def _judge_all(count: int, seed: int) -> None:
    faults = [one.name for one in PROGRAMS.values() if one.findings and not one.is_on_gpu]
    chosen = sorted(random.Random(seed).sample(faults, count))
    right: list[bool] = []
    numbers = differing = 0
    with tempfile.TemporaryDirectory() as folder:
        async with stdio_client(_SERVER) as streams, ClientSession(*streams) as session:
            await session.initialize()
            for name in chosen:
                trace = f"{folder}/{name}.opscope"
                command = [sys.executable, "-m", "benchmarks.agents", "--record", name, trace]
                subprocess.run(command, check=True, cwd=Path(__file__).parents[1])
                first = await _ask(session, "verdict", trace=trace)
                right.append(_names_fault(name, first))
                for text in (first, await _ask(session, "findings", trace=trace)):
                    for query, shown in _shown_numbers(text):
                        rows = await _ask(session, "sql", trace=trace, query=query, rows=1000,
                                          tokens=20_000)  # fmt: skip
                        numbers += len(shown)
                        differing += len(shown - set(_numbers(rows)))
                print(f"{name:34} {'right' if right[-1] else 'WRONG'}", flush=True)
    print(
        f"{sum(right)} of {count} right; {differing} of {numbers} numbers differ from their query"
    )


async def _time(trace: str) -> None:
    """Every question twice: the first of its kind computes what others read."""
    took: list[tuple[float, str]] = []
    async with stdio_client(_SERVER) as streams, ClientSession(*streams) as session:
        await session.initialize()
        begun = time.perf_counter()
        opened = (await _ask(session, "open", trace=trace)).split()[0]
        print(f"open: {time.perf_counter() - begun:.2f} s")
        found = await _ask(session, "findings", trace=opened)
        questions: list[tuple[str, dict[str, Any]]] = [("verdict", {}), ("findings", {})]
        ids = re.findall(r"^\| ([\w-]+) \|", found.partition("\n## Not")[0], re.M)[1:]
        questions += [("explain", {"what": one}) for one in (*ids, "aten::")]
        questions += [("sql", {"query": one}) for one in _QUERIES]
        for turn in range(2):
            for tool, arguments in questions:
                begun = time.perf_counter()
                await _ask(session, tool, trace=opened, **arguments)
                seconds = time.perf_counter() - begun
                print(f"{turn} {seconds * 1000:8.0f} ms {tool} {arguments}")
                took.append((seconds, tool))
    ordered = sorted(seconds for seconds, _ in took[len(questions) :])
    print(f"median {statistics.median(ordered) * 1e3:.0f} ms, "
          f"p95 {ordered[int(len(ordered) * 0.95)] * 1e3:.0f} ms of {len(ordered)}")  # fmt: skip


_QUERIES = (
    "select count(*) from events",
    "select name, count(*), sum(duration_us) from named_events group by name order by 3 desc",
    "select * from named_events order by duration_us desc limit 20",
    "select file, line, time_ns from lines order by time_ns desc limit 10",
    "select thread, min(start_ns), max(start_ns) from events group by thread",
    "select finding, count(*) from occurrences group by finding",
    "select action, count(*), sum(size_bytes) from allocations group by action",
    "select * from operators limit 30",
)


async def _ask(session: ClientSession, tool: str, **arguments: Any) -> str:
    result = await session.call_tool(tool, arguments)
    text: str = result.content[0].text
    if result.is_error:
        raise SystemExit(f"{tool} {arguments}: {text}")
    return text


def _names_fault(name: str, answer: str) -> bool:
    """Whether the verdict is at the line of the fault, and its finding is one of those that are."""
    program = PROGRAMS[name]
    line = re.search(r"^- line: (\d+)$", answer, re.M)
    first = re.search(r"^## What to change\n.*\n.*\n.*\n\| ([\w-]+) \|", answer, re.M)
    return bool(line and first and int(line[1]) in program.lines and first[1] in program.findings)


def _shown_numbers(answer: str) -> Iterator[tuple[str, set[str]]]:
    for part in answer.split("\n## ")[1:]:
        _, query, *lines = part.splitlines()
        yield (
            query.strip("`"),
            {one for line in lines if line[:1] in ("|", "-") for one in _numbers(line)},
        )


def _numbers(text: str) -> list[str]:
    """Cells that are a number, outside of quotes."""
    cells = re.split(r"[|\n]|: ", re.sub("«[^»]*»", "", text))
    return [cell.strip() for cell in cells if _NUMBER.fullmatch(cell.strip())]


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
