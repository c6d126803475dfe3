"""Making what is released: wheels that bring compiled bridges, the source archive, and what vouches for them."""
