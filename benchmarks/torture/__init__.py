"""Tries to break tta-bench; each module has a `run` that returns figures."""
