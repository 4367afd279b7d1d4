"""Run folders: what is in them, checkpoints, and the reader of finished ones."""
