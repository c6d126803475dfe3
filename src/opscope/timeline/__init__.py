"""How events relate: nesting, forward to backward, steps; as columns and as objects."""
