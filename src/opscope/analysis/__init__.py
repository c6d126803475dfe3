"""Analyses of a trace, one question per module: from a trace to a frozen dataclass."""
