"""Plain data from files and arguments: parsed, then checked against declared types."""
