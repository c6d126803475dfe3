"""The trace: immutable tables of columns, and the only thing downstream code sees."""
