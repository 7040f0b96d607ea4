"""What every layer may use: errors, files, the terminal, YAML and libraries that are loaded on first use."""
