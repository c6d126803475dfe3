"""Files for other tools, one format per module; each writes any :class:`~opscope.trace.Trace`."""
