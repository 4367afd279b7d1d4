"""The command `everystep`: one module per command, listed in main.py."""
