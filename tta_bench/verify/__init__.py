"""Checks a run folder against everything that can be recomputed here. Only `rerun` needs torch."""
