"""The inventory of processing units."""
