"""Streamed recordings: files, recovery and traces."""
