"""Graph inputs, METIS parts, and the kernels of graph stages."""
