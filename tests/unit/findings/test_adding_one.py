"""A file in the folder of patterns is a finding: what CONTRIBUTING.md says, word by word."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from opscope.findings import patterns

CONTRIBUTING = Path(__file__).parents[3] / "CONTRIBUTING.md"


def test_the_recipe_for_a_finding_adds_one(tmp_path, monkeypatch):
    recipe = CONTRIBUTING.read_text().partition("### Adding a finding\n")[2].partition("\n## ")[0]
    (name,) = re.findall(r"Say, `(\w+)\.py`", recipe)
    pattern, test = re.findall(r"```python\n(.*?)```", recipe, re.DOTALL)
    (tmp_path / f"{name}.py").write_text(pattern)
    monkeypatch.setattr(patterns, "__path__", [*patterns.__path__, str(tmp_path)])
    monkeypatch.setitem(sys.modules, f"{patterns.__name__}.{name}", None)
    del sys.modules[f"{patterns.__name__}.{name}"]  # forgotten again afterwards
    space: dict[str, object] = {}
    exec(test, space)
    followed = [run for called, run in space.items() if called.startswith("test_")]
    assert followed
    for run in followed:
        run()
