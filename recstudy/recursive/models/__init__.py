"""Model families: their configs, and their networks in networks/."""
