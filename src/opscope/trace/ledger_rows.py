"""What rows of the ledger are called that several parts of opscope know."""

SLOWDOWN = "code between events takes so many times as long: "
"""Of the source ``recorder``; what does that follows."""
