"""Device utilisation, causes of idle time, and work by operator and module."""
