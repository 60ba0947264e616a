"""Measurement: compiled candidates are checked on guarded memory and timed in another process; records are kept."""
