"""A player of the TensorGame that learns: network, tree search, self-play and training, in JAX."""
