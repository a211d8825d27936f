"""Datasets that are known by name."""
