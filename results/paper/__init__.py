"""The tables of the DPAL paper (ECCV 2024) as CSV; installed, so that runs can be compared with them."""
