"""Figures from run folders and inspections. Imports neither torch nor the runner: pictures are made on a laptop."""
