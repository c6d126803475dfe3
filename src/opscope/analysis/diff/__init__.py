"""Comparing recordings: what changed between two versions of a program, and is it certain."""
