"""A study or a search as data: its variants, seeds, claims, plan and price."""
