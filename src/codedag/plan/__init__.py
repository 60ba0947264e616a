"""Decide which variant of each operation runs where; imports only ir."""
