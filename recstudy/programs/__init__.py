"""What a run executes: a function, a command, a table of finished runs, or a program of another package."""
