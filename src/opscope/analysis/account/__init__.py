"""Where the time of every thread and device went, by cause, without rest."""
