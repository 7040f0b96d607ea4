"""The report part `Ranks`: mean ranks of methods over data sets, as a critical-difference figure.

Friedman's test asks whether the methods differ at all over blocks of this kind. Wilcoxon's signed-rank tests
with Holm's correction compare each pair (Demsar 2006; Benavoli, Corani and Mangili 2016).
"""

from __future__ import annotations

from itertools import combinations

from recstudy.base.errors import ConfigError
from recstudy.base.lazy import go, np, pd, px
from recstudy.evidence import holm
from recstudy.report.cells import cell
from recstudy.report.look import SCREEN
from recstudy.report.names import join_labels, metric, plural
from recstudy.report.parts import PARTS, FigurePart, OfMetric, OfVariants
from recstudy.report.study_records import StudyRecords

COLUMNS = ("method", "mean_rank", "blocks", "p_friedman", "ties", "_worst")
MIN_RANKED_BLOCKS = 6  # with fewer, no pair can differ significantly by ranks: the smallest p is 2 / 2^blocks


@PARTS.add("ranks")
class Ranks(FigurePart, OfMetric, OfVariants):
    """Mean ranks of methods over at least six blocks, such as data sets. Bars join methods that tie.

    Raises:
        ConfigError: There are fewer than two methods or six blocks.
    """

    name: str = "ranks"
    subject = "mean ranks over data sets"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per method: its mean rank, and the methods from which it does not differ."""
        means: dict[str, dict[object, float | None]] = {}
        for index in self.comparable(records):
            value = cell(records, [index], self.metric).value
            means.setdefault(records.methods[index], {})[records.blocks[index]] = value
        blocks = list(dict.fromkeys(block for of_method in means.values() for block in of_method))
        if len(blocks) < MIN_RANKED_BLOCKS or len(means) < 2:
            raise ConfigError(
                f"ranks {self.name!r} need two methods in at least {MIN_RANKED_BLOCKS} blocks, but there are"
                f" {plural(len(means), 'method')} and {plural(len(blocks), 'block')}"
            )
        columns = [[of_method.get(block) for block in blocks] for of_method in means.values()]
        all_scores = pd.DataFrame(dict(zip(means, columns, strict=True)), dtype=float)
        scores = all_scores.dropna(axis=1)
        missing_methods = all_scores.columns.difference(scores.columns, sort=False)
        if scores.shape[1] < 2:  # a method without a value in each block has no rank
            return pd.DataFrame(columns=COLUMNS)
        from scipy.stats import friedmanchisquare, wilcoxon  # slow to import

        methods = [*map(str, scores)]
        ranks = scores.rank(axis=1, ascending=metric(self.metric).better == "lower").mean()
        pairs = list(combinations(methods, 2))
        differences = [scores[first] - scores[second] for first, second in pairs]
        p_values = holm([float(wilcoxon(row).pvalue) if row.any() else 1.0 for row in differences])
        tied: dict[str, list[str]] = {method: [] for method in methods}
        for (first, second), p in zip(pairs, p_values, strict=True):
            if p >= records.plan.alpha:
                tied[first].append(second)
                tied[second].append(first)
        data = pd.DataFrame({"method": methods, "mean_rank": ranks.to_numpy(), "blocks": len(blocks)})
        # Friedman's test needs three methods. For two, Wilcoxon's test is the whole answer.
        data["p_friedman"] = friedmanchisquare(*scores.to_numpy().T).pvalue if len(methods) > 2 else np.nan
        data["ties"] = ["; ".join(names) for names in tied.values()]
        data["_worst"] = [ranks[[method, *tied[method]]].max() for method in methods]
        notes = []
        if len(missing_methods):
            names = join_labels([*missing_methods], limit=6)
            notes.append(f"left out, because they lack a value in a block: {names}")
        if len(pairs) * 2 ** (1 - len(blocks)) >= records.plan.alpha:
            notes.append(
                f"{plural(len(blocks), 'block')} cannot show that one of {plural(len(pairs), 'pair')} differs"
            )
        data.attrs["notes"] = notes
        return data.sort_values("mean_rank", ignore_index=True)

    def caption(self, data: pd.DataFrame) -> str:
        p = data["p_friedman"].min()
        test = "" if np.isnan(p) else f"Friedman's test over {data['blocks'].iloc[0]} blocks: p {p:.3g}. "
        return f"{test}A bar joins methods that do not differ significantly (Wilcoxon, Holm)"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        figure = px.scatter(data, x="mean_rank", y="method", template=SCREEN)
        tied = data[data["_worst"] > data["mean_rank"]]
        for method, best, worst in zip(tied["method"], tied["mean_rank"], tied["_worst"], strict=True):
            figure.add_scatter(x=[best, worst], y=[method] * 2, mode="lines", line_width=4)
        figure.update_layout(showlegend=False, xaxis_title="mean rank (1 is the best)", yaxis_title="")
        return figure.update_yaxes(autorange="reversed")

    def finding(self, data: pd.DataFrame) -> str:
        if data.empty:
            return ""
        return f"{data['method'].iloc[0]} has the best mean rank, {data['mean_rank'].iloc[0]:.2f}"
