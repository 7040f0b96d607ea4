"""Build the figures of a report.

Each part turns records into a data frame, and the frame into a Plotly figure. `recstudy.report.look` gives
all figures the same colours, lines and fonts.
"""
