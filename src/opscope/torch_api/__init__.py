"""Everything shaped like ``torch.profiler``: profiles, schedules, observers, their events and tables."""
