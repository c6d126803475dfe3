"""Making what is released: wheels, the source archive, what vouches for them."""
