"""Timing that a noisy machine cannot fool: exact counts, and ratios measured side by side."""
