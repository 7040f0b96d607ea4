import pytest


@pytest.fixture(autouse=True)
def working_folder(tmp_path, monkeypatch):
    """Programs run, and results lie, in an empty folder."""
    monkeypatch.chdir(tmp_path)
