"""Why a program is slow: patterns in a trace that cost time, where they are, what a fix would save.

``pattern`` says what a pattern is, ``find`` lists and applies them all; every other module here
holds patterns of one subject.
"""
