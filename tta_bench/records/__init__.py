"""Cells, their records, and the folder that stores them."""
