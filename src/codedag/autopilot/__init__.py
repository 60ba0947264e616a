"""Observe, plan, prove and switch inside one running program."""
