"""What a cell is, what it left behind, and the folder that keeps it."""
