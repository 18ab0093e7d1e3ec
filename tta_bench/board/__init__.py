"""The board: submissions in git, and what a submission must show. Imports no torch; only reruns need it."""
