"""Files for other tools, one format per module; each writes any :class:`~opscope.storage.Trace`."""
