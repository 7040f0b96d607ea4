"""The share of the test set's tokens that each expert of a layer ran on (003, Figure 8)."""

from __future__ import annotations

import math
from typing import ClassVar

from recstudy.lazy import go, pd
from recstudy.records.reading import record_of
from recstudy.records.runs import Row
from recstudy.records.schema import Routing
from recstudy.report.caveats import some
from recstudy.report.examples import cut_note, describe_damage, run_columns, shown_variants
from recstudy.report.look import folded, share_map
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords

COLUMNS = ["variant", "label", "seed", "layer", "expert", "tokens", "share", "even", "entropy", "dropped", "synthetic"]
MOST = 6  # variants: more do not fit on a page
MOST_NUMBERS = 12  # experts whose shares fit into their cells
LAYER, LETTERS = 44, 14  # pixels of a layer, and letters of a line of a variant's name


@PARTS.add("expert_load")
class ExpertLoad(FigurePart, OfVariants):
    """Of mixtures of experts: each expert's share of the test set's tokens by layer, a panel a variant; one seed of a variant."""

    name: str = "load"
    default_title: ClassVar[str] = "Each expert's share of the test set's tokens"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per expert, of the first finished seed of each of the best variants that have experts.

        `tokens` it ran on, its `share` and the `even` one in percent of the layer's tokens; of the layer the mean router
        `entropy` in nats and the choices `dropped`. Layers and experts count from 1.
        """
        variants = records.chosen(self.where)
        runs = {run.variant: run for run in reversed(records.rows) if run.done and "expert_load_peak" in run.measured}
        routed = [index for index in variants if index in runs]
        lacking = [records.variants[index].label for index in variants if index not in runs]
        notes = [*cut_note(records, len(routed), MOST)]
        notes += [f"without an expert load, because they have one expert or no finished run: {some(lacking)}"] if lacking else []
        loads = [pd.DataFrame(columns=COLUMNS)]
        for run in (runs[index] for index in shown_variants(records, MOST, routed)):
            try:
                loads.append(_read_load(run).assign(**run_columns(records, run))[COLUMNS])
            except ValueError as error:
                path = records.results.run(run.id).result
                notes.append(f"{run.label}: {describe_damage(path, error)}")
        data = pd.concat(loads[-len(runs) :], ignore_index=True)
        data.attrs["notes"] = notes
        return data

    def caption(self, data: pd.DataFrame) -> str:
        layers = data.drop_duplicates(["variant", "layer"])
        dropped = layers["dropped"].sum()
        lost = f"{dropped:,} choices were dropped" if dropped else "no token was dropped"
        experts = sorted(data.groupby("variant")["expert"].max().unique())
        counts = ", ".join(f"{math.log(count):.2f} of {count}" for count in experts)
        return (
            "Percent of the tokens that a layer's experts ran on, each as often as it has experts; true captions are read, "
            f"no PAD; {lost}. Beside each layer: the router's mean entropy in nats; no preference would be {counts} experts. "
            "Experts of two seeds or layers have nothing in common but their number."
        )

    def finding(self, data: pd.DataFrame) -> str:
        top = data.sort_values("share").iloc[-1]
        return f"at most {top['share']:.3g} % of a layer's tokens, {top['even']:.3g} % if even"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        variants = [folded(f"{label}, seed {seed}", LETTERS) for label, seed in data[["label", "seed"]].to_numpy()]
        layers = "layer " + data["layer"].astype(str) + data["entropy"].map(":<br>{:.2f} nats".format)
        figure = share_map(data["expert"], [variants, layers], data["share"], "% of tokens")
        if data["expert"].max() <= MOST_NUMBERS:
            figure.update_traces(texttemplate="%{z:.1f}")
        height = 140 + LAYER * len(data.drop_duplicates(["variant", "layer"]))
        return figure.update_xaxes(title="expert", type="category").update_layout(height=height)


def _read_load(run: Row) -> pd.DataFrame:
    routing = record_of(Routing, run.found.routing)
    if not all(map(sum, routing.load)):
        raise ValueError("routing: a layer without tokens")
    layers = pd.DataFrame({"tokens": routing.load, "entropy": routing.entropy, "dropped": routing.dropped})
    data = layers.assign(layer=layers.index + 1).explode("tokens", ignore_index=True).astype({"tokens": int, "dropped": int})
    experts = data.groupby("layer")["tokens"]
    share = 100 * data["tokens"] / experts.transform("sum")
    return data.assign(expert=experts.cumcount() + 1, share=share, even=100 / experts.transform("size"))
