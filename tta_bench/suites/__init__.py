"""Suites that ship with tta-bench, one YAML each."""
