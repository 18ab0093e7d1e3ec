"""The checks of `tta-bench check`, before time is spent."""
