"""DuckDB, for SQL; where it is not installed, an error that says so."""

from opscope.errors import not_installed

try:
    import duckdb
except ImportError as error:
    raise not_installed("duckdb", "SQL") from error

__all__ = ["duckdb"]
