"""Moves of the pilot: kinds of changes, one module each."""
