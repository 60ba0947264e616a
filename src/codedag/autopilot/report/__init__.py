"""What a run brought, for report.json and the next run."""
