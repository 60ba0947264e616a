"""C texts of scheduled programs."""
