"""Moves of the pilot: how changes are found, made and made again in a later run; one module for each kind."""
