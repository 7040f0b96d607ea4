"""The rows of runs, under the name by which the report's modules import them."""

from recstudy.records.runs import ENDED, STATUSES, Row, distinct, imported_rows, origin, read_row

__all__ = ["ENDED", "STATUSES", "Row", "distinct", "imported_rows", "origin", "read_row"]
