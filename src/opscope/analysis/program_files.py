"""Which source files are the program's own; the recorder asks too, so it stands with traces."""

from opscope.base.program_files import is_library

__all__ = ["is_library"]
