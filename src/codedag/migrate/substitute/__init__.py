"""One call given another function, and what a substitution needs to be used."""
