"""Tables from records. Imports neither torch nor the runner: reports are made on a laptop."""
