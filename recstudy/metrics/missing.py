"""A score that cannot be had, which is not a fault: a table shows a dash and the reason."""


class NotAvailable(Exception):
    """Why a score cannot be computed on this machine, in words for a table's note."""
