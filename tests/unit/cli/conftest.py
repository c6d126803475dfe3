"""Running the command line inside the test process, for commands that only read traces."""

from dataclasses import dataclass

import pytest

from opscope.cli import main
from support.build_trace import allocation, build_trace, span, tensor


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def complaint(self):
        """The one paragraph on standard error, after ``opscope:``; there must be nothing else."""
        assert self.code != 0
        assert self.err.startswith("opscope: ")
        assert "Traceback" not in self.err
        return self.err.removeprefix("opscope: ").strip()


@pytest.fixture
def command_line(capsys):
    """Calls a command, such as "why --all"; gives the exit code and what was printed."""

    def call(command="", *arguments):
        capsys.readouterr()
        try:
            main([*command.split(), *map(str, arguments)])
            code = 0
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


@pytest.fixture
def trace_folder(tmp_path):
    """A small trace on disk: 3 matrix products of two shapes, an addition, one allocation."""
    small = {"inputs": [tensor(2, 3), tensor(3, 4)]}
    large = {"inputs": [tensor(20, 30), tensor(30, 40)]}
    trace = build_trace(
        [
            span("step", 0, 100),
            span("aten::mm", 10, 20, **small),
            span("aten::add", 20, 25),
            span("aten::mm", 30, 70, **large),
            span("aten::mm", 70, 80, **small),
        ],
        allocations=[allocation(35, 4096)],
        ledger={"events": {"recorded": 5, "dropped: memory budget": 2}},
    )
    trace.save(tmp_path / "small.opscope")
    return tmp_path / "small.opscope"
