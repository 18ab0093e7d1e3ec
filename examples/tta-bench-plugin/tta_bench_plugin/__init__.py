"""An example of a package that brings a method, a dataset, a model and a suite to tta-bench."""
