"""Hashes that show whether a result is still valid: of code (`code.py`) and of the files that settings name."""
