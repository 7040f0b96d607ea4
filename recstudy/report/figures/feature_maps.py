"""The feature maps of MicarVLMoE's multiscale vision encoder for one test image (003, Figure 3)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from recstudy.lazy import go, np, pd
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.tiles import SIDE, Tiles, tile_figure
from recstudy.report.traces import first_trace

COLUMNS = ["variant", "label", "seed", "data", "row", "map", "least", "mean", "largest", "where", "synthetic"]
COARSEST = 5  # C5 is the last stage of a ResNet
DARK, MIDDLE, LIGHT = "#00204C", "#7C7B78", "#FFE945"  # of cividis, which color-blind readers see alike
COLUMNS_OF_TILES = 3


@PARTS.add("feature_maps")
class FeatureMaps(FigurePart, OfVariants):
    """Feature maps of a multiscale vision encoder for one test image: of the first variant whose runs saved them.

    Each map is the mean over channels: of every pyramid level, enlarged to the size of the finest, and of their fusion F.
    """

    name: str = "features"
    example: int = Field(default=0, ge=0, le=5)  # which of the first test images; a run saves 6
    default_title: ClassVar[str] = "Feature maps of the vision encoder"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per map: its least, mean and largest value, and `where` the largest is (row and column, from 1)."""
        trace, notes = first_trace(records, self.where, self.example, "features")
        data = pd.DataFrame(columns=COLUMNS)
        if trace is not None and trace.features is not None:
            levels = [f"P{level}" for level in range(COARSEST + 2 - len(trace.features), COARSEST + 1)]
            peaks = [np.unravel_index(values.argmax(), values.shape) for values in trace.features]
            statistics = {
                "map": [*levels, "F"],
                "least": trace.features.min((1, 2)),
                "mean": trace.features.mean((1, 2)),
                "largest": trace.features.max((1, 2)),
                "where": [f"row {row + 1}, column {column + 1}" for row, column in peaks],
            }
            data = pd.DataFrame(statistics).assign(**trace.columns)[COLUMNS]
            data["_trace"] = pd.Series([trace] * len(data), dtype=object)
            if trace.image is None:
                notes.append(f"{trace.columns['label']}: the image of test row {trace.row} was not saved")
        data.attrs["notes"] = notes
        return data

    def caption(self, data: pd.DataFrame) -> str:
        trace, coarsest = data["_trace"].iloc[0], data["map"].iloc[-2]
        height, width = trace.features.shape[1:]
        return (
            f"{trace.title}. Each map is the mean over channels, {height}x{width} places, from its least value (dark) to its "
            f"largest (light). {coarsest} is the coarsest level. F is the fusion of all levels, which the decoder reads."
        )

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw the image, then each map."""
        from PIL import Image, ImageOps

        size, trace = (SIDE, SIDE), data["_trace"].iloc[0]
        images = [(trace.image or Image.new("RGB", size, "gray")).resize(size).convert("RGB")]
        for values in trace.features:
            shares = (values - values.min()) / max(np.ptp(values), np.finfo(float).tiny)
            gray = Image.fromarray((255 * shares).astype(np.uint8)).resize(size, Image.Resampling.NEAREST)
            images.append(ImageOps.colorize(gray, DARK, LIGHT, MIDDLE))
        rows = data.to_dict("records")
        hover = [f"{row['map']}: mean {row['mean']:.3g}, largest {row['largest']:.3g} at {row['where']}" for row in rows]
        words = ["<i>the image</i>", *data["map"]]
        return tile_figure([Tiles(self.heading, images, words, ["the image", *hover], COLUMNS_OF_TILES)])
