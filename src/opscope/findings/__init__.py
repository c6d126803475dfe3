"""Findings: known performance problems with place, fix and saving.

``pattern`` declares a check, ``patterns/`` has all checks, and ``find`` runs them.
"""
