"""Judging of changes by the program's own turns: the record of a change, blocks, verdicts, policy."""
