"""Executing plans: processes, pipelines, verification, the drop-in module and the bundle."""
