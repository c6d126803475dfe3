"""The page of every error message is what the source says."""

import ast
from pathlib import Path

import pytest

import opscope
from opscope.cli.error_reference import error_messages, find_messages


@pytest.fixture(scope="module")
def messages():
    return list(find_messages())


def test_texts_however_they_are_made(messages):
    texts = {m.module: [] for m in messages}
    for message in messages:
        texts[message.module].append(message.text)
    assert any(
        text.startswith("Nothing has been recorded yet.")
        for text in texts["opscope.profile_recording"]
    )
    holes = "… is empty. Its writer was probably interrupted: export the trace again."
    assert holes in texts["opscope.trace.chrome.read_json"]
    by_a_function = "None of the … distinct operator calls can be replayed (…)."
    assert any(by_a_function in text for text in texts["opscope.replay.replay"])


def test_every_module_that_raises_one_is_on_the_page(messages):
    package = Path(opscope.__file__).parent
    raising = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = node.exc if isinstance(node, ast.Raise) else None
            name = call.func if isinstance(call, ast.Call) else None
            if isinstance(name, ast.Name) and name.id in {"UsageError", "TraceFormatError"}:
                raising.add(".".join(path.relative_to(package.parent).with_suffix("").parts))
    assert len(raising) > 30
    assert raising <= {m.module for m in messages}


def test_nothing_in_a_message_is_markup():
    page = error_messages()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert all(line.count("|") == 3 for line in rows)
    assert "## TraceFormatError" in page
    assert "*" not in page
