"""Arrow, for what needs it; where it is not installed, an error that says so.

Recording needs NumPy alone, and so does most of what is asked of a trace in memory.
"""

from opscope.errors import not_installed

try:
    import pyarrow as pa
except ImportError as error:
    raise not_installed("pyarrow", "Reading and saving traces, SQL and tables of Arrow") from error

__all__ = ["pa"]
