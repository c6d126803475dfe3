"""Renderers of results, and texts shared by commands."""
