"""Captures what happens inside a model while a method adapts it, for figures."""
