"""Streams: which image comes when, and the scenarios that decide it."""
