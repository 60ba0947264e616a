"""Worker processes of the program: their reports, and the exchange of proven changes."""
