"""The same answers for agents, notebooks and loops of changes: nothing here is computed anew."""
