"""The published results of this repository as data: the records of the board, one compressed file per suite.

`python -m tta_bench.published results/board` writes these files. They hold records as they were submitted, each with
its digest, but no predictions: those are in the packed runs.
"""
