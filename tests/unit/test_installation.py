"""A copy of the Python files alone says what is missing."""

import zipfile
from pathlib import Path

import opscope
from support.processes import run_python


def test_without_its_compiled_part_it_says_what_to_do(tmp_path):
    package = Path(opscope.__file__).parent
    with zipfile.ZipFile(tmp_path / "opscope.zip", "w") as archive:
        for file in package.rglob("*.py"):
            archive.write(file, file.relative_to(package.parent))
    program = f"import sys; sys.path[:0] = [{str(tmp_path / 'opscope.zip')!r}]; import opscope"
    # Without site-packages, where an installation with the compiled part would be found.
    done = run_python("-I", "-S", "-c", program)
    said = done.stderr.splitlines()[-1]
    assert said.startswith("opscope.errors.MissingDependencyError: opscope's native core")
    assert said.endswith("install opscope with the pip of this Python.")
