"""Small asyncio programs, and what was recorded of them."""

import asyncio

from opscope import _native
from support.record_python import PythonWindow

WANTS = ("ASYNCIO", "ANNOTATIONS")


def note(name):
    """Something that runs."""
    with _native.Annotation(name):
        pass


async def pause():  # an await that is over at once
    await asyncio.sleep(0)


class Recorded:
    """A window while a program runs in it, and what it had afterwards."""

    def __init__(self, *wants, all_threads=True):
        self.window = PythonWindow(*(wants or WANTS), all_threads=all_threads)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.window.close()
        self.roots = self.window.read()

    def runs(self):
        """Shapes of the runs on all threads, without what asyncio itself runs at its end."""
        runs = [call for root in self.roots for call in root.find_all() if is_run(call)]
        return [
            run.shape() for run in runs if not run.name.startswith("asyncio task: BaseEventLoop")
        ]

    def table(self, name):
        """Columns of a table as lists."""
        tables = self.window.decoded.get("tables", self.window.decoded)
        return {column: values.tolist() for column, values in tables[name].items()}

    def text(self, row):
        """Of a row in names."""
        offsets, text = self.window.decoded["name_offsets"], self.window.decoded["name_text"]
        return text[offsets[row] : offsets[row + 1]].decode()

    def task_names(self):
        """Of all tasks but asyncio's own, in the order in which they ran first."""
        tasks, frames = self.table("tasks"), self.table("frames")
        files = [self.text(frames["file"][frame]) if frame >= 0 else "" for frame in tasks["frame"]]
        own = "base_events.py"
        rows = zip(tasks["name"], files, strict=True)
        return [self.text(name) for name, file in rows if not file.endswith(own)]


def is_run(call):
    return call.name.startswith("asyncio task: ")


def task(name, *children):
    """The shape of a run."""
    name = f"asyncio task: {name}"
    return (name, *children) if children else name


async def step_twice(name):
    note(f"{name} 1")
    await pause()
    note(f"{name} 2")


async def gather_two():
    note("before")
    await asyncio.gather(step_twice("a"), step_twice("b"))
    note("after")
