"""Schedules: the space of ways to run a program, its sketches, constraints and features."""
