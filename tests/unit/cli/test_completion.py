"""What a shell is told when the tab key is pressed."""

import shutil
import subprocess

import pytest


@pytest.mark.parametrize("shell", ["zsh", "fish", "tcsh"])
def test_every_command_and_its_options(command_line, shell):
    script = command_line("doctor --completion", shell).out
    assert "summary" in script and "row-limit" in script and "no-table" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes(command_line, tmp_path):
    (tmp_path / "trace.opscope").mkdir()
    script = command_line("doctor --completion", "bash").out

    def offered(*words):
        typed = " ".join(words)
        asked = (
            f"COMP_WORDS=(opscope {typed}); COMP_CWORD={len(words)}; "
            '_shtab_opscope; echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "-c", f"{script}\n{asked}"], cwd=tmp_path, capture_output=True, text=True
        )
        return done.stdout.split()

    assert offered("su") == ["summary"]
    assert offered("summary", "--row") == ["--row-limit"]
    assert offered("summary", "--format", "''") == ["table", "md", "json", "csv"]
    assert offered("summary", "tr") == ["trace.opscope"]
    assert offered("run", "--sh") == ["--shapes"]
    assert offered("run", "tr") == ["trace.opscope"]
    assert offered("run", "train.py", "tr") == ["trace.opscope"]
    assert offered("run", "--why", "-o", "out", "--sh") == ["--shapes"]
    for words in (["train.py"], ["--why", "train.py", "--memory"], ["-m", "timeit", "-n"]):
        assert not [one for one in offered("run", *words, "--") if one.startswith("-")]
