"""Engines: where the seeds of an experiment are run."""
