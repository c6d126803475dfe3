"""Device activity: collection, and conversion to events."""
