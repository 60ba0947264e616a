"""Loop programs: buffers, axes, affine indices and statements, built by name, from a text or from a function."""
