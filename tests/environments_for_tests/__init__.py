"""The small environments of the tests, once: each has a name and a docstring that says what is special about it."""
