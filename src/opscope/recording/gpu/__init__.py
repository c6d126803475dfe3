"""What devices did: collecting it, and events made of it."""
