"""Recordings that are in files while they are made, and what becomes of those."""
