import re

import pytest
from made_up import base, finish, read, result, variants, write_report, write_study

from recstudy.base.errors import ConfigError
from recstudy.report.caveats import seed_words
from recstudy.report.summary import Price, costs, flowing, reproducibility


def test_recstudys_own_commit_and_notes_of_the_data_are_provenance(results):
    record = result(93.0)
    provenance = record["provenance"] | {
        "recstudy": "4567def",
        "data_notes": ["12 colour images converted to grey", "<3 left out>"],
    }
    finish(results, 0, 0, record | {"provenance": provenance})

    page = write_report(results, "made_up", "paper").read_text()

    assert '<th scope="row">recstudy&#39;s own commit</th><td>4567def</td><td>1 run</td>' in page
    assert '<th scope="row">commit</th><td>0123abc</td>' in page
    assert '<th scope="row">data note</th><td>&lt;3 left out&gt;</td><td>1 run</td>' in page


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            {"name": "cifar10"},
            "initial weights, order of training; fixed across seeds: images, validation split",
        ),
        (
            {"name": "sudoku", "rounds": 1, "drawing_seed": 0, "resample": "per seed"},
            "initial weights, order of training, puzzles, validation split",
        ),
        (
            {"name": "cifar10", "limit": 500, "resample": "per seed"},
            "initial weights, order of training, subset of a limit, validation split; fixed across seeds: images",
        ),
        (
            {"name": "digits", "drawing_seed": 0, "resample": "per seed"},
            "initial weights, order of training, split into training and test images, validation split",
        ),
    ],
)
def test_a_page_says_what_the_random_seed_controls(tmp_path, data, sentence):
    records = read(write_study(tmp_path / "r", base=base(selection="validation") | {"data": data}))

    assert seed_words(records) == sentence
    assert f"<dt>The random seed controls</dt><dd>{sentence}</dd>" in reproducibility(records)


def test_variants_with_and_without_new_data_per_seed_are_listed_separately(tmp_path):
    chosen = variants()
    chosen[1]["changes"] = chosen[1]["changes"] | {"data.resample": "per seed", "data.limit": 500}
    records = read(write_study(tmp_path / "r", variants=chosen))

    first, second, *other_parts = seed_words(records).split("); ")

    assert first.startswith("initial weights, order of training; fixed across seeds: images (")
    assert (
        second
        == "initial weights, order of training, subset of a limit; fixed across seeds: images ("
        + records.variants[1].label
        + ")"
    )
    assert not other_parts


def test_sentences_flow_and_commands_keep_their_lines():
    question = (
        "One sentence goes\non here.\nCost: quick,\n3 minutes.\n\n    python a.py\n    python a.py --seeds 2"
    )

    assert (
        flowing(question)
        == "One sentence goes on here.\nCost: quick, 3 minutes.\n\n    python a.py\n    python a.py --seeds 2"
    )


def machines_row(results, price=None):
    return dict(costs(read(results), price))["Machines"]


def test_used_hours_are_summed_and_priced(results):
    """The made-up runs of 90 s: one had a core and a half and half of a GPU on two workers, one half a core
    and all of it.
    """
    assert machines_row(results) == ""

    for seed, cores, gpu, memory in ((0, 1.5, 50.0, 900.0), (1, 0.5, 100.0, 1200.0)):
        record = result(93.0)
        cost = record["cost"] | {
            "cores_used": cores,
            "gpu_use": gpu,
            "peak_memory_mb": memory,
            "seconds": 3600.0,
        }
        provenance = record["provenance"] | {"hardware": {"gpu": "a GPU"}, "workers": 2 - seed}
        finish(results, 0, seed, record | {"cost": cost, "provenance": provenance})

    assert machines_row(results) == "1.0 cores and 75 % of a GPU on average, at most 1,200 MB, 3 GPU hours"
    assert machines_row(results, Price.parse("2.5EUR")).endswith("3 GPU hours, 7.50 EUR at 2.5 an hour")
    records = read(results)
    assert "7.50 EUR at 2.5 an hour" in dict(costs(records, Price.parse("2.5 EUR")))["Machines"]


@pytest.mark.parametrize("price_text", ["2.5", "EUR", "-1EUR", "1e9EUR"])
def test_a_price_is_a_number_with_its_currency(price_text):
    with pytest.raises(
        ConfigError,
        match=r"^--price is the price of a GPU hour with its currency, such as 2.5EUR or 3USD, but got",
    ):
        Price.parse(price_text)


def test_published_values_state_cell_and_quote_on_the_page_and_in_explain(results, typed):
    words = "section 4.3, Table 1, ViTRM, cifar10, batch_size 128, top1_accuracy"
    quote = "ViTRM (ours) | 3.6M | 92.6 | 93.1"
    page = write_report(results, "made_up", "paper").read_text()
    output = typed("explain", "scores:ViTRM, batch size 128:1", results.root)

    # in the table in a tooltip, and in the section of published values also for the keyboard
    assert re.search(rf'<td title="[^"]*{re.escape(words)}: &#34;{re.escape(quote)}', page)
    assert (
        f'<span tabindex="0" title="{words}: &#34;{quote}&#34;">ViTRM Table 1 (002_table1_cifar10#3)</span>'
        in page
    )
    assert f'published in: ViTRM Table 1 (002_table1_cifar10#3): {words}: "{quote}"\n' in output
