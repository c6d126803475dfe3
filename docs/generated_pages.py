"""Pages of the site that are made of the code, so that they cannot be out of date."""

import re
from typing import Any

from docs.generators.command_line import command_line
from docs.generators.error_messages import error_messages
from docs.generators.recorded import what_is_recorded
from docs.generators.rollup_tables import rollup_tables
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages about the command line, what can be recorded, rollups, messages."""
    pages = {
        "reference/command-line.md": command_line(),
        "reference/recorded.md": what_is_recorded(),
        "reference/rollups.md": rollup_tables(),
        "reference/error-messages.md": error_messages(),
    }
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Leave out the roles of references in docstrings, such as ``:func:``."""
    return re.sub(r":(?:func|meth|class|mod):(?=<code>)", "", html)
