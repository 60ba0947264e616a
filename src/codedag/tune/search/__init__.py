"""Searches: gradient descent, evolution and random draws behind one interface and one counter of measurements."""
