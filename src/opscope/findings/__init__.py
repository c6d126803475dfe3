"""Findings: known performance problems with place, fix and saving.

``pattern`` says what a pattern is, ``find`` lists and applies them all; every other module here
holds patterns of one subject.
"""
