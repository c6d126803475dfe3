"""Questions about a trace, one per module: from a Trace to a frozen dataclass."""
