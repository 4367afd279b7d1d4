"""The small problems of the tests that several files use."""
