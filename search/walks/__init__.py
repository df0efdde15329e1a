"""Random walks in the flip graph: kernels, their state, moves and settings."""
