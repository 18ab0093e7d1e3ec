"""One method on one stream, in your own script: no suite, no folder, no files."""
