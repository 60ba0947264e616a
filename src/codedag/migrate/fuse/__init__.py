"""Fused chains: a run of sites replaced by one kernel or table."""
