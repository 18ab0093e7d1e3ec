"""The axes of a stream: domains, their order, laps, class shares, labels, cuts, resets, freezing."""
