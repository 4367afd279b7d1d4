"""Experiments: what to run, running it into a folder, and the numbers, tables and figures that come out."""
