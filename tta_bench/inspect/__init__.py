"""Looks inside a model while a method adapts it, for figures."""
