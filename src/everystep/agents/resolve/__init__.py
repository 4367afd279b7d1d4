"""Settings resolved on a problem: every `auto` decided, every part made."""
