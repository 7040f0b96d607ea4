"""Decoding, against a search of one caption at a time and on tables of words by hand."""

from typing import NamedTuple

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from recstudy.recursive import ImageHRM, ImageLSTM, ImageTRM
from recstudy.recursive.models.networks.caption import Captioner
from recstudy.recursive.tasks.captioning.decode import decode


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


@given(st.sampled_from(MODELS), st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0]))
@settings(max_examples=8, deadline=None)
def test_the_batched_beam_search_is_the_textbooks(model, seed, width, power):
    network, images = captioner(model, seed), images_of(seed)

    token_ids = decode(
        network, images, IDS, length=LENGTH, steps=2, width=width, length_normalisation=power
    ).tolist()

    assert token_ids == [beam_search_of_one(network, image, width, power) for image in images]


def test_a_beam_of_one_is_greedy():
    for seed, model in enumerate(MODELS):
        network, images = captioner(model, seed, temperature=1.0), images_of(seed, 8)
        greedy, beam = (
            decode(network, images, IDS, length=12, steps=2, method=method, width=1)
            for method in ("greedy", "beam")
        )
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


def test_pad_and_bos_are_never_written():
    """Nor where the model likes nothing better; but the search of 003 bans nothing."""
    table = Table({last: {IDS.pad: 0.6, IDS.bos: 0.3, A: 0.1} for last in (IDS.pad, IDS.bos, A)})

    for method, word in {"greedy": A, "official_quirk": IDS.pad}.items():
        caption = decode(table, torch.zeros(1, 1), IDS, length=4, steps=1, method=method)
        assert caption.tolist() == [[IDS.bos, word, word, word]]


def test_search_of_003_continues_after_eos_until_all_end_at_once():
    """Captions A EOS B EOS B ... and C A EOS B EOS ... give EOS in turns, never together: words pile up.

    Alone, the first ends at its first EOS, as captions should.
    """

    class BatchSensitive(Table):
        def next(self, images, tokens, steps, cache=None):
            logits, cache = super().next(images, tokens, steps, cache)
            if tokens.shape[1] == 1:  # BOS leads to each image's own first word
                logits = torch.full_like(logits, -20.0).scatter(1, images[:, None].long(), 0.0)
            return logits, cache

    network = BatchSensitive({A: {IDS.eos: 1.0}, IDS.eos: {B: 1.0}, B: {IDS.eos: 1.0}, C: {A: 1.0}})
    together, single_image = (
        decode(network, torch.tensor(images), IDS, length=7, steps=1, method="official_quirk")
        for images in ([A, C], [A])
    )

    assert [[word for word in caption if word in WORDS] for caption in together.tolist()] == [
        [A, B, B],
        [C, A, B, B],
    ]
    # words first, so that a tokenizer reads them
    assert together[0].tolist() == [IDS.bos, A, B, B, IDS.eos, IDS.eos, IDS.eos]
    assert single_image.tolist() == [[IDS.bos, A, IDS.eos, 0, 0, 0, 0]]
