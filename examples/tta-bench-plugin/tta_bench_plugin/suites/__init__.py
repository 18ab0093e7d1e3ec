"""The *.yaml files in this folder are suites."""
