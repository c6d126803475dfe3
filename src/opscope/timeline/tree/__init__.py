"""Nesting of events, and details of one event."""
