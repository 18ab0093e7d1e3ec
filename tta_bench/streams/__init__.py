"""Streams: images in a fixed order, and the scenarios that define it."""
