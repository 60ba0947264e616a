"""What other tools load: notebooks, MLflow, pytest."""
