"""Loop nests made for this machine: generated, compiled, proven elsewhere, then used."""
