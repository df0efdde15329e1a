"""Larger schemes from smaller ones."""
