"""What the seeds of a study say: pure functions of arrays, which know neither records nor words nor figures."""
