"""What questions about many processes need of each: small tables beside those of a trace."""
