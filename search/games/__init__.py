"""Tree search on the tensor game, without a network."""
