"""What a user of a GPU asks first: is it busy, why not, and whose work is it doing."""
