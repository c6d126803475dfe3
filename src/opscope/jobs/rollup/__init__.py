"""Rollups: precomputed statistics of one process, stored beside its trace."""
