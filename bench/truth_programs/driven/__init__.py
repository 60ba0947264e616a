"""The package that driven_elsewhere.py runs."""
