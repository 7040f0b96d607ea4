"""Records that only the recursive models write."""

from typing import Annotated

from pydantic import Field

from recstudy.records.schema import Integer, Number, record

Cosine = Annotated[float, Field(gt=-1.001, lt=1.001)]  # with a tolerance for rounding


@record
class Routing:
    """The routing of a mixture of experts, one entry per layer.

    `load` has the number of tokens of each expert, `entropy` the mean entropy of the router, and `dropped`
    the number of dropped assignments.
    """

    load: tuple[tuple[Number, ...], ...]
    entropy: tuple[float, ...]
    dropped: tuple[Number, ...]


@record
class KeptCaption:
    """A test image with its reference captions and the generated caption."""

    row: Integer
    references: tuple[str, ...]
    hypothesis: str


@record
class KeptCaptions:
    """`captions.json` of a run."""

    examples: tuple[KeptCaption, ...]


@record
class CosinePair:
    """The cosine similarity of a test image and its caption, before and after training."""

    row: Integer
    caption: str
    before: Cosine
    after: Cosine
    image: str = ""  # its file; empty if unknown


@record
class CosinePairs:
    """`alignment.json` of a run."""

    pairs: tuple[CosinePair, ...]
