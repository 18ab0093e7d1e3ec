"""What `tta-bench check` looks at before time is spent."""
