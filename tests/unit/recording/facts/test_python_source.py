"""What names of functions are shortened by: the folders that Python imports from."""

import os
import sys
from pathlib import Path

from opscope.recording.facts.python_source import path_prefixes


def test_folders_come_longest_first_and_absolute(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "inner"), "", Path("relative")])
    found = path_prefixes()
    assert all(os.path.isabs(folder) and folder.endswith(os.sep) for folder in found)
    assert found.index(f"{tmp_path}/inner/") < found.index(f"{tmp_path}/")
    assert {os.getcwd() + os.sep, os.path.abspath("relative") + os.sep} <= set(found)


def test_the_current_folder_may_be_gone(monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setattr(sys, "path", ["", "relative", "/absolute"])
    found = path_prefixes()
    assert "/absolute/" in found
    assert all(os.path.isabs(folder) for folder in found)


def test_what_is_no_folder_is_passed_over_as_python_does(monkeypatch, tmp_path):
    expected = path_prefixes()
    monkeypatch.setattr(sys, "path", [*sys.path, None, 3, b"bytes", "a\0b", object()])
    assert [folder for folder in path_prefixes() if "\0" not in folder] == expected
