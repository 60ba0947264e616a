"""Record what a program does as a dataflow graph."""
