"""Recordings on disk: Parquet folders, SQL, remote stores, importers of other formats."""
