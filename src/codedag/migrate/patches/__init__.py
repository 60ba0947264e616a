"""Library patches: another function in the place of a library's, everywhere it is held, and the way back."""
