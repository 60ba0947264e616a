"""Planning from tables: predicted costs, parallel execution plans, their simulation."""
