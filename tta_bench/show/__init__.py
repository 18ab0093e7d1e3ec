"""`tta-bench show`: the images on which two rows of a run differ, as one HTML file without a network."""
