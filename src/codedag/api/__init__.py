"""The few public faces: tracing a running process, and the names that the guides use."""
