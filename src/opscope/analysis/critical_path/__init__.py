"""Dependencies between events, the critical path, and what-if replays."""
