"""An agent's session, from a recording to a decision, over the protocol and its real client."""

import asyncio
import sys

import pytest

pytest.importorskip("torch", reason="records a program")
pytest.importorskip("mcp", reason="mcp is not installed")

from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

from opscope.cli import main
from support.torch_processes import run_torch

PROGRAM = """
import torch, sys
network = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(network.parameters())
print("begins")
for step in range(40):
    optimizer.zero_grad()
    loss = network(torch.randn(8, 64)).sum()
    loss.backward()
    optimizer.step()
    for value in loss.detach().repeat(200):
        value.item()
"""


def test_the_loop_of_an_agent(tmp_path):
    (tmp_path / "slow.py").write_text(PROGRAM)
    (tmp_path / "fast.py").write_text(PROGRAM.partition("    for value")[0])

    async def work():
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "opscope", "mcp", "--allow-run"],
            cwd=str(tmp_path),
        )
        async with (
            stdio_client(parameters) as streams,
            ClientSession(*streams) as session,
        ):
            await session.initialize()

            async def call(tool, **arguments):
                result = await session.call_tool(tool, arguments)
                assert not result.is_error, result.content[0].text
                return result.content[0].text

            said = await call("record", command="slow.py", trace="old.opscope")
            assert "- exit code: " in said and "«begins»" in said
            assert "- line: 12" in said or "- line: 11" in said, said
            await call("record", command="fast.py", trace="new.opscope")
            compared = await call("compare", old=["old.opscope"], new=["new.opscope"])
            assert "aten::item" in compared
            decided = await call("decide", comparison="c1", gate="step<=+900%", reason="less work")
            assert decided.startswith("accept")
            refused = await session.call_tool("record", {"command": "nothing_here.py"})
            assert "No trace was written" in refused.content[0].text

    asyncio.run(work())
    assert "less work" in (tmp_path / "opscope-decisions.jsonl").read_text()


def test_the_same_text_without_a_server(tmp_path, capsys):
    (tmp_path / "slow.py").write_text(PROGRAM)
    done = run_torch("-m", "opscope", "run", "--no-table", "slow.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    command = ["summary", str(tmp_path / "slow.opscope"), "--tokens", "500"]
    main([*command, "--format", "md"])
    shown = capsys.readouterr().out
    assert "- status: " in shown and len(shown.encode()) <= 1500
    with pytest.raises(SystemExit) as refused:
        main(command)
    assert refused.value.code == 2 and "--format md" in capsys.readouterr().err


def test_the_skill_is_written_where_it_is_wanted(tmp_path):
    main(["doctor", "--skill", str(tmp_path / "skills")])
    text = (tmp_path / "skills" / "opscope" / "SKILL.md").read_text()
    assert text.startswith("---\nname: opscope\n")
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as refused:
        main(["doctor", "--skill", str(tmp_path / "file")])
    assert refused.value.code == 2
