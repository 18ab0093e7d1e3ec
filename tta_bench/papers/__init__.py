"""Published numbers, as data."""
