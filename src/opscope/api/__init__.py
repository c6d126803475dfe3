"""The objects that users hold: ``Trace``, ``Job``, ``load``, ``diff``."""
