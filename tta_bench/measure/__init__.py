"""Measurements around `adapt`: time, passes, memory, accuracy and the environment."""
