"""What the script of a page asks of the board: the page's address, and what the browser has of it."""

from typing import Literal

from dash.exceptions import DependencyException
from flask import abort, request
from pydantic import BaseModel, ValidationError

ROUTE = "/_dash-update-component"


class _Parts(BaseModel):
    """What a browser has: the address it was given for, each part's mark, and the last notice; nothing at first."""

    at: tuple[str, str] | None = None
    parts: dict[str, str] = {}
    news: int | None = None


class _Made(BaseModel):
    id: Literal["update", "have"]
    property: Literal["data"]


class _Address(BaseModel):
    id: Literal["at"]
    property: Literal["pathname", "search"]
    value: str | None = None


class _Tick(BaseModel):
    id: Literal["tick"]
    property: Literal["n_intervals"]
    value: int | None = None


class _Have(BaseModel):
    id: Literal["have"]
    property: Literal["data"]
    value: _Parts


class Asked(BaseModel):
    """A request as Dash's own script makes it."""

    output: Literal["..update.data...have.data.."]
    outputs: tuple[_Made, _Made]
    inputs: tuple[_Address, _Address, _Tick]
    state: tuple[_Have]
    changedPropIds: list[str] = []


def refuse_malformed() -> None:
    """Of what is sent to the board, only this is passed on to Dash, which takes all else for a fault of ours."""
    if request.path == ROUTE and request.method == "POST":
        try:
            Asked.model_validate_json(request.get_data())
        except ValidationError:
            abort(400, "This is not what a page of the board asks.")


def no_such_file(error: DependencyException) -> tuple[str, int]:
    """Of one of Dash's packages."""
    return f"no such file: {error}", 404
