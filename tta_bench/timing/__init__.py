"""Timing that is robust to noise: exact counts, and ratios measured side by side."""
