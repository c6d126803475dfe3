"""Which events torch.profiler lists, how it nests them and what it averages: torch's own rules."""
