"""Substitutions and vocabularies, one file per library."""
