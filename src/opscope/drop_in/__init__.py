"""torch.profiler's own objects, as thin views over a Trace."""
