"""Starting the programs of others."""
