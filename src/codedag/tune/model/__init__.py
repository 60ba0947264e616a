"""The cost model: a small network with slopes, learned from shipped records and refined by this machine's."""
