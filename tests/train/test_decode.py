"""Decoding, against every caption there is and against a search of one caption at a time."""

from itertools import product
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from recstudy.models import ImageHRM, ImageLSTM, ImageTRM
from recstudy.models.networks.caption import Captioner
from recstudy.tasks.captioning.decode import decode


class Ids(NamedTuple):
    pad: int = 0
    bos: int = 1
    eos: int = 2


IDS, VOCABULARY, LENGTH = Ids(), 6, 5  # PAD, BOS, EOS and three words; four of them after BOS
WORDS = range(3, VOCABULARY)
EYES = {"backbone": "small", "weights": "random"}
MODELS = [
    ImageLSTM(width=8, **EYES),
    ImageTRM(width=8, heads=2, layers=1, cycles=1, latent_steps=2, **EYES),
    ImageHRM(width=8, heads=2, low_layers=1, middle_layers=1, high_layers=1, **EYES),
]


def captioner(model=MODELS[0], seed=0, temperature=3.0) -> Captioner:
    """Random weights with pronounced likes and dislikes."""
    torch.manual_seed(seed)
    network = model.build((3, 16, 16), VOCABULARY).double().eval()
    nn.init.normal_(network.answer.weight, std=temperature)
    return network


def images_of(seed: int, count: int = 3) -> torch.Tensor:
    return torch.randn(count, 256, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def log_p(network: Captioner, image: torch.Tensor, caption: list[int], steps: int = 2) -> list[float]:
    """Of each word of a caption after BOS, from one pass over all of it; PAD and BOS are no words."""
    tokens = torch.tensor([caption])
    carry = network.start(image[None], tokens)
    for _ in range(steps):
        output, carry = network(image[None], carry)
    logits = output.logits[0].clone()
    logits[:, [IDS.pad, IDS.bos]] = -torch.inf
    chosen = logits.log_softmax(-1)[:-1].gather(1, tokens[0, 1:, None])
    return chosen[:, 0].tolist()


def score(network: Captioner, image: torch.Tensor, caption: list[int], power: float) -> float:
    words = log_p(network, image, caption)
    return sum(words) / len(words) ** power


def every_caption() -> list[list[int]]:
    """All that end, and all that are cut."""
    ended = [[IDS.bos, *words, IDS.eos] for count in range(LENGTH - 1) for words in product(WORDS, repeat=count)]
    return ended + [[IDS.bos, *words] for words in product(WORDS, repeat=LENGTH - 1)]


def padded(caption: list[int], length: int = LENGTH) -> list[int]:
    return caption + [IDS.pad] * (length - len(caption))


def beam_search_of_one(network: Captioner, image: torch.Tensor, width: int, power: float) -> list[int]:
    """As a textbook has it: a list of captions, sorted; without batches, caches and tensors."""
    beams = [[IDS.bos]]
    for _ in range(LENGTH - 1):
        grown = [beam for beam in beams if beam[-1] == IDS.eos]
        grown += [[*beam, word] for beam in beams if beam[-1] != IDS.eos for word in (IDS.eos, *WORDS)]
        beams = sorted(grown, key=lambda beam: -score(network, image, beam, power))[:width]
    return padded(beams[0])


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.family)
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_caption_there_is(model, power):
    """Of 121 captions; 121 beams hold all of them."""
    network, images = captioner(model), images_of(0, 2)

    found = decode(network, images, IDS, length=LENGTH, steps=2, width=121, length_normalisation=power).tolist()

    for image, caption in zip(images, found, strict=True):
        best = max(every_caption(), key=lambda one: score(network, image, one, power))
        assert caption == padded(best)


@given(seed=st.integers(0, 10**6), width=st.integers(1, 4), power=st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=15, deadline=None)
def test_the_batched_beam_search_is_the_textbooks(seed, width, power):
    network, images = captioner(seed=seed), images_of(seed)

    found = decode(network, images, IDS, length=LENGTH, steps=2, width=width, length_normalisation=power).tolist()

    assert found == [beam_search_of_one(network, image, width, power) for image in images]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.family)
def test_a_beam_of_one_is_greedy(model):
    for seed in range(5):
        network, images = captioner(model, seed, temperature=1.0), images_of(seed, 8)
        greedy, beam = (decode(network, images, IDS, length=12, steps=2, method=method, width=1) for method in ("greedy", "beam"))
        assert torch.equal(greedy, beam)


class Table(Captioner):
    """The next word's probabilities by the last word alone, written down; the image counts for nothing."""

    def __init__(self, rows: dict[int, dict[int, float]]) -> None:
        super().__init__()
        self.logits = torch.full((VOCABULARY, VOCABULARY), -20.0)
        for last, words in rows.items():
            for word, probability in words.items():
                self.logits[last, word] = torch.tensor(probability).log()

    def start(self, images, tokens=None):
        return (tokens,)

    def forward(self, images, carry):
        raise AssertionError("decoding asks for the next token alone")

    def next(self, images, tokens, steps, cache=None):
        return self.logits[tokens[:, -1]], (tokens,)


A, B, C = WORDS
# Greedy begins with A (0.5), whose best ends have 0.5 x 0.4; B leads to 0.4 x 0.9.
GARDEN_PATH = Table({IDS.bos: {A: 0.5, B: 0.4, IDS.eos: 0.1}, A: {A: 0.4, C: 0.35, IDS.eos: 0.25}, B: {IDS.eos: 0.9, C: 0.1}})


def test_two_beams_find_what_greedy_walks_past():
    images = torch.zeros(2, 1)

    found = decode(GARDEN_PATH, images, IDS, length=3, steps=1, width=2)
    greedy = decode(GARDEN_PATH, images, IDS, length=3, steps=1, method="greedy")

    assert found.tolist() == [[IDS.bos, B, IDS.eos]] * 2
    assert greedy.tolist() == [[IDS.bos, A, A]] * 2


def test_length_normalisation_prefers_long_captions():
    """EOS at once has log 0.5 = -0.69 a word; A B EOS has log 0.45 x 0.9 x 0.9, which is -1.01 in all and -0.34 a word."""
    table = Table({IDS.bos: {IDS.eos: 0.5, A: 0.45, C: 0.05}, A: {B: 0.9, C: 0.1}, B: {IDS.eos: 0.9, C: 0.1}, C: {C: 1.0}})

    plain, normalised = (
        decode(table, torch.zeros(1, 1), IDS, length=5, steps=1, length_normalisation=power).tolist() for power in (0.0, 1.0)
    )

    assert plain == [[IDS.bos, IDS.eos, 0, 0, 0]]
    assert normalised == [[IDS.bos, A, B, IDS.eos, 0]]


def test_pad_and_bos_are_never_written():
    """Nor where the model likes nothing better; but the search of 003 bans nothing."""
    table = Table({last: {IDS.pad: 0.6, IDS.bos: 0.3, A: 0.1} for last in (IDS.pad, IDS.bos, A)})

    for method, word in {"greedy": A, "beam": A, "official_quirk": IDS.pad}.items():
        found = decode(table, torch.zeros(1, 1), IDS, length=4, steps=1, method=method)
        assert found.tolist() == [[IDS.bos, word, word, word]]


def test_the_search_of_003_goes_on_after_eos_until_all_end_at_once():
    """Caption A EOS B EOS B EOS ... and caption C C EOS B EOS B ... give EOS in turns, never together: words pile up.

    Alone, the first ends at its first EOS, as captions should.
    """
    rows = {A: {IDS.eos: 1.0}, IDS.eos: {B: 1.0}, B: {IDS.eos: 1.0}, C: {IDS.eos: 1.0}}
    table = Table(rows)
    begin = {0: A, 1: C}

    class Apart(Table):
        def next(self, images, tokens, steps, cache=None):
            logits, cache = super().next(images, tokens, steps, cache)
            if tokens.shape[1] <= 2:  # BOS leads to each image's own first word, and C to C once
                own = torch.tensor([begin[int(image)] for image in images])
                forced = torch.where((tokens.shape[1] == 1) | (own == C), own, IDS.eos)
                logits = torch.full_like(logits, -20.0).scatter(1, forced[:, None], 0.0)
            return logits, cache

    apart = Apart(rows)
    both = decode(apart, torch.tensor([0.0, 1.0]), IDS, length=7, steps=1, method="official_quirk")
    alone = decode(apart, torch.tensor([0.0]), IDS, length=7, steps=1, method="official_quirk")
    right = decode(apart, torch.tensor([0.0, 1.0]), IDS, length=7, steps=1, method="greedy")

    assert [[word for word in caption if word in WORDS] for caption in both.tolist()] == [[A, B, B], [C, C, B, B]]
    assert both[0].tolist() == [IDS.bos, A, B, B, IDS.eos, IDS.eos, IDS.eos]  # words first, so that a tokenizer reads them
    assert alone.tolist() == [[IDS.bos, A, IDS.eos, 0, 0, 0, 0]]
    assert right.tolist() == [[IDS.bos, A, IDS.eos, 0, 0, 0, 0], [IDS.bos, C, C, IDS.eos, 0, 0, 0]]
    assert table.logits.equal(apart.logits)


@pytest.mark.parametrize("method", ["greedy", "beam", "official_quirk"])
def test_a_caption_has_the_length_that_is_asked_for(method):
    network = captioner(MODELS[1])

    for length in (2, 7):
        found = decode(network, images_of(0), IDS, length=length, steps=1, method=method)
        assert found.shape == (3, length)
        assert (found[:, 0] == IDS.bos).all()
        assert not found.requires_grad
