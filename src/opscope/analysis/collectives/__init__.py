"""Collective calls of one process, with their transfers."""
