"""From a captioner's logits to a caption: greedy, by beam search, or by the search of 003 as its code runs
it.

    score(w_1 ... w_n) = n^-a sum_i log p(w_i | image, w_1 ... w_i-1)      EOS is a word; a: `length_normalisation`      (1)

A beam search keeps the `width` captions of the highest score. One that has ended keeps its place, its words
and its score; it is given up only for `width` better ones. PAD and BOS are never written.

In 003's code all beams start equal and so stay equal: it is greedy. It does not stop at EOS either: a caption
goes on, and its later words count, until every caption of the batch gives EOS at the same step (contradiction
003-2). PAD and BOS may be written there, and are no words.

Shapes: B images, W beams, T tokens, V vocabulary.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from recstudy.data.text import Tokenizer
from recstudy.models.networks.caption import Captioner, reorder

Method = Literal["greedy", "beam", "official_quirk"]


def decode(
    network: Captioner,
    images: Tensor,
    special: Tokenizer,
    *,
    length: int,
    steps: int,
    method: Method = "beam",
    width: int = 3,
    length_normalisation: float = 0.0,
) -> Tensor:
    """Return a caption for each image, (B, `length`) int64: BOS, words, EOS, PAD. One that is cut at `length`
    has no EOS.

    Args:
        network: in evaluation mode.
        images: pixels or features, as `network` reads them.
        special: the tokenizer.
        length: most tokens, with BOS and EOS.
        steps: supervision steps a token.
        method: `official_quirk` depends on which images share a batch, as 003's does.
        width: beams an image.
        length_normalisation: a of equation (1); 0 prefers short captions.
    """
    with torch.no_grad():
        if method == "beam":
            tokens = _beam_search(network, images, special, length, steps, width, length_normalisation)
        else:
            tokens = _greedy(network, images, special, length, steps, goes_on=method == "official_quirk")
    return F.pad(tokens, (0, length - tokens.shape[1]), value=special.pad)


def _greedy(
    network: Captioner, images: Tensor, special: Tokenizer, length: int, steps: int, goes_on: bool
) -> Tensor:
    tokens = _begin(images, special)
    ended = torch.zeros(len(images), dtype=torch.bool, device=images.device)
    cache = None
    while tokens.shape[1] < length:
        logits, cache = network.next(images, tokens, steps, cache)
        if goes_on:
            word = logits.argmax(-1)
            ended = word == special.eos
        else:
            word = torch.where(ended, special.pad, _writable(logits, special).argmax(-1))
            ended = ended | (word == special.eos)
        tokens = torch.cat([tokens, word[:, None]], dim=1)
        if ended.all():
            break
    if goes_on:  # every EOS moves behind the words, so that the words after one are read too
        tokens = tokens.gather(1, (tokens == special.eos).to(torch.int8).argsort(dim=1, stable=True))
    return tokens


class _Beams(NamedTuple):
    """The best captions of each image so far, the best first."""

    tokens: Tensor  # (B, W, T)
    scores: Tensor  # (B, W) log p; -inf where there is no beam yet
    words: Tensor  # (B, W) how many, EOS included
    ended: Tensor  # (B, W)


def _beam_search(
    network: Captioner, images: Tensor, special: Tokenizer, length: int, steps: int, width: int, power: float
) -> Tensor:
    # An image's captions at the start: one, because equal ones would stay equal.
    tokens_BWT = _begin(images, special)[:, None].expand(-1, width, -1)
    scores_BW = torch.zeros(len(images), width, device=images.device)
    scores_BW[:, 1:] = -torch.inf
    beams = _Beams(tokens_BWT, scores_BW, torch.zeros_like(scores_BW), scores_BW > 0)
    logits, cache = network.next(images, beams.tokens[:, 0], steps)
    rows = torch.arange(len(images), device=images.device).repeat_interleave(width)
    logits = logits[rows]
    while True:
        beams, chosen = _grown(beams, logits, special, power)
        # log p only falls: nothing overtakes an ended first
        settled = beams.ended if power else beams.ended[:, 0]
        if beams.tokens.shape[2] >= length or settled.all():
            return beams.tokens[:, 0]
        cache = reorder(cache, rows[chosen])
        rows = torch.arange(len(chosen), device=images.device)
        logits, cache = network.next(images, beams.tokens.flatten(0, 1), steps, cache)


def _grown(beams: _Beams, logits: Tensor, special: Tokenizer, power: float) -> tuple[_Beams, Tensor]:
    """Return the best captions of one word more by equation (1), and of which row of `logits` (B W, V) each
    comes.
    """
    count, width, _ = beams.tokens.shape
    logp_BWV = _writable(logits, special).float().log_softmax(-1).unflatten(0, (count, width))
    totals_BWV = beams.scores[..., None] + _frozen(logp_BWV, beams.ended, special)
    words_BW = beams.words + ~beams.ended
    best_BW = (totals_BWV / words_BW[..., None] ** power).flatten(1).topk(width).indices
    beam_BW, word_BW = best_BW // logp_BWV.shape[-1], best_BW % logp_BWV.shape[-1]
    chosen = (torch.arange(count, device=logits.device)[:, None] * width + beam_BW).flatten()
    tokens_BWT = beams.tokens.flatten(0, 1)[chosen].unflatten(0, (count, width))
    grown = _Beams(
        torch.cat([tokens_BWT, word_BW[..., None]], dim=2),
        totals_BWV.flatten(1).gather(1, best_BW),
        words_BW.gather(1, beam_BW),
        beams.ended.gather(1, beam_BW) | (word_BW == special.eos),
    )
    return grown, chosen


def _begin(images: Tensor, special: Tokenizer) -> Tensor:
    return torch.full((len(images), 1), special.bos, dtype=torch.int64, device=images.device)


def _writable(logits: Tensor, special: Tokenizer) -> Tensor:
    """Return the logits (N, V) without PAD and BOS."""
    return logits.index_fill(1, torch.tensor([special.pad, special.bos], device=logits.device), -torch.inf)


def _frozen(logp_BWV: Tensor, ended_BW: Tensor, special: Tokenizer) -> Tensor:
    """Beams that have ended go on with PAD alone, at no cost."""
    only_pad_V = torch.full_like(logp_BWV[0, 0], -torch.inf).index_fill(
        0, torch.tensor(special.pad, device=logp_BWV.device), 0
    )
    return torch.where(ended_BW[..., None], only_pad_V, logp_BWV)
