"""Recordings outside of memory: Parquet folders, SQL, remote stores, and importers of other formats."""
