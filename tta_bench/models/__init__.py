"""Source models: where weights come from, how they are loaded, and how the embedded ones were trained."""
