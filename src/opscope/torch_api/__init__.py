"""torch.profiler's interface: profiles, schedules, observers, events and tables."""
