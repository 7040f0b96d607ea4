"""Cells run in a real kernel, as a notebook runs them."""

from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def executed(cells: Sequence[str], folder: Path) -> list[nbformat.NotebookNode]:
    """The cells with their outputs."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(
        book, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    return book.cells
