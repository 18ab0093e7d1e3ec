"""Run folders as single files: written by `pack.py`, checked and unpacked by `unpack.py`, found by `address.py`;
`columns.py` is how they hold predictions.
"""
