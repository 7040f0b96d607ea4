"""Tables: what stands in a cell, what is best, and how a table is written as Markdown, HTML, LaTeX, CSV and
in a terminal.
"""
