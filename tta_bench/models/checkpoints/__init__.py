"""Source models that ship with tta-bench; each has a note of how it was made."""
