"""Build the tables of a report: their cells, the marks of the best ones, and their lines and notes.

`table`, `arithmetic` and `question_table` have one kind of table each. `render` replaces the cells of a table
by entries, which `recstudy.report.writers` writes as Markdown, HTML and LaTeX, and writes the CSV.
"""
