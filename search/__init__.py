"""Finds schemes: walks in the flip graph, lifting, tree search. Yields schemes and never stores them."""
