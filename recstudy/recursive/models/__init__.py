"""Settings of the model families. Importing them does not load torch; `config.build(...)` does."""
