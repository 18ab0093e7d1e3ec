"""From a suite and choices to finished cells."""
