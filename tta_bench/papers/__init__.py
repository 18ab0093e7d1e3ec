"""Published numbers, as data: one folder per paper, with `paper.yaml` and CSV files. `paper.py` reads them.

`paper.yaml` says which suites answer which table and under which conditions measured numbers may be compared with it;
its keys are the fields of `Paper`. `accuracy.csv` (table, method, task, accuracy, std, provenance) and `minutes.csv`
(table, method, minutes) hold the numbers, tasks under our names.
"""
