"""The command `everystep`."""
