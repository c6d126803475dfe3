"""Comparison of recordings: significant changes between two versions of a program."""
