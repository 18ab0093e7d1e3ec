"""Fetches published datasets into the data root: transfer, check, unpack. Imports no torch and no dataset."""
