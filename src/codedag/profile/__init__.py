"""Measuring every operation on every processing unit that can run it, and what follows from the figures."""
