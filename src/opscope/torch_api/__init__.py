"""What is shaped like ``torch.profiler``: profiles, schedules, observers, events and tables."""
