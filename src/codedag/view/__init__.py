"""Show a run: as text so far; imports only ir."""
