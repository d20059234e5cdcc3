"""Slow, obvious definitions: the source of reference numbers."""
