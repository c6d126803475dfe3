"""Arrow's reader and writer of Parquet, which take a moment to import; as :mod:`.arrow` is."""

from opscope.errors import not_installed

try:
    import pyarrow.parquet as pq
except ImportError as error:
    raise not_installed("pyarrow", "Reading and saving traces") from error

__all__ = ["pq"]
