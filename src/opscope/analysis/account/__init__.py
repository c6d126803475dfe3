"""The account of time: wall time of every thread and device by cause."""
