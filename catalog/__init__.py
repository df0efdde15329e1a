"""The ground: what a scheme is, that it is right, where it is kept."""
