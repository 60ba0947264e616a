"""Show a run: as text and as an SVG picture; imports only ir."""
