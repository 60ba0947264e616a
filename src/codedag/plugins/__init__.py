"""Faces towards other tools: pytest, notebooks, MLflow."""
