"""Makes the helpers beside this file importable from the tests of each library."""
