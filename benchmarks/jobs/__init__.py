"""Jobs of many ranks: programs that are one, and traces of jobs that no program ran."""
