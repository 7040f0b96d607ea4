"""What the families compute: one method section a file, in torch."""
