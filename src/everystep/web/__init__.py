"""Pages in the browser: one to read, and one to play with."""
