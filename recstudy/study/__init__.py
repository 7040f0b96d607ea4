"""A study or a search as data: its variants, plan, price and trials, and what a finished one is run again
for.
"""
