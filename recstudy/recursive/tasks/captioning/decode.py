"""Search for a caption with a captioner's logits: greedy, by beam search, or as the code of paper 003 does.

    score(w_1 ... w_n) = n^-a sum_i log p(w_i | image, w_1 ... w_i-1)                                     (1)

EOS counts as a word, and a is `length_normalisation`. Beam search keeps the `width` captions with the highest
scores. A finished caption keeps its words and its score, and is dropped only for `width` better ones. PAD and
BOS are never written. `writing.captions` calls `decode`.

In 003's code all beams start equal and stay equal, so its search is greedy. It also does not stop at EOS:
later words of a caption count until every caption of the batch has EOS at the same step (contradiction
003-2). It may write PAD and BOS, which are no words.

Shapes: B images, W beams, T tokens, V vocabulary.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from recstudy.recursive.data.text import Tokenizer
from recstudy.recursive.models.networks.caption import Captioner, reorder

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
    """Return a caption for each image.

    Args:
        network: a network in evaluation mode.
        images: pixels or features, as `network` reads them.
        special: the tokenizer, for its special tokens.
        length: maximum number of tokens, with BOS and EOS.
        steps: supervision steps for each token.
        method: `official_quirk` depends on which images share a batch, as in 003's code.
        width: number of beams for each image.
        length_normalisation: a of equation (1); 0 prefers short captions.

    Returns:
        (B, `length`) int64: BOS, words, EOS, PAD. A caption that is cut at `length` has no EOS.
    """
    with torch.no_grad():
        if method == "beam":
            tokens = _beam_search(network, images, special, length, steps, width, length_normalisation)
        else:
            tokens = _greedy(network, images, special, length, steps, ignores_eos=method == "official_quirk")
    return F.pad(tokens, (0, length - tokens.shape[1]), value=special.pad)


def _greedy(
    network: Captioner, images: Tensor, special: Tokenizer, length: int, steps: int, ignores_eos: bool
) -> Tensor:
    tokens = _start_tokens(images, special)
    has_ended = torch.zeros(len(images), dtype=torch.bool, device=images.device)
    cache = None
    while tokens.shape[1] < length:
        logits, cache = network.next(images, tokens, steps, cache)
        if ignores_eos:
            word = logits.argmax(-1)
            has_ended = word == special.eos
        else:
            word = torch.where(has_ended, special.pad, _writable(logits, special).argmax(-1))
            has_ended = has_ended | (word == special.eos)
        tokens = torch.cat([tokens, word[:, None]], dim=1)
        if has_ended.all():
            break
    if ignores_eos:  # move every EOS behind the words, because the words after it count too
        order = (tokens == special.eos).to(torch.int8).argsort(dim=1, stable=True)
        tokens = tokens.gather(1, order)
    return tokens


class _Beams(NamedTuple):
    """The best captions of each image so far, best first."""

    tokens: Tensor  # (B, W, T)
    scores: Tensor  # (B, W) log p; -inf for beams that do not exist yet
    words: Tensor  # (B, W) number of words, including EOS
    has_ended: Tensor  # (B, W) whether EOS is written


def _beam_search(
    network: Captioner, images: Tensor, special: Tokenizer, length: int, steps: int, width: int, power: float
) -> Tensor:
    # Each image starts with one beam, because equal beams would stay equal.
    tokens_BWT = _start_tokens(images, special)[:, None].expand(-1, width, -1)
    scores_BW = torch.zeros(len(images), width, device=images.device)
    scores_BW[:, 1:] = -torch.inf
    beams = _Beams(tokens_BWT, scores_BW, torch.zeros_like(scores_BW), scores_BW > 0)
    logits, cache = network.next(images, beams.tokens[:, 0], steps)
    rows = torch.arange(len(images), device=images.device).repeat_interleave(width)
    logits = logits[rows]
    while True:
        beams, chosen = _grow_beams(beams, logits, special, power)
        # Without length normalization, scores only fall, so no caption can overtake a finished best one.
        settled = beams.has_ended if power else beams.has_ended[:, 0]
        if beams.tokens.shape[2] >= length or settled.all():
            return beams.tokens[:, 0]
        cache = reorder(cache, rows[chosen])
        rows = torch.arange(len(chosen), device=images.device)
        logits, cache = network.next(images, beams.tokens.flatten(0, 1), steps, cache)


def _grow_beams(beams: _Beams, logits: Tensor, special: Tokenizer, power: float) -> tuple[_Beams, Tensor]:
    """Return the best captions with one more word by (1), and the row of `logits` (B W, V) of each."""
    count, width, _ = beams.tokens.shape
    logp = _writable(logits, special).float().log_softmax(-1)
    logp_BWV = logp.unflatten(0, (count, width))
    # A finished beam continues with PAD only, with probability 1.
    pad = torch.tensor(special.pad, device=logits.device)
    only_pad_V = torch.full_like(logp_BWV[0, 0], -torch.inf).index_fill(0, pad, 0)
    totals_BWV = beams.scores[..., None] + torch.where(beams.has_ended[..., None], only_pad_V, logp_BWV)
    words_BW = beams.words + ~beams.has_ended
    # Equation (1): all beams of an image compete with all their next words.
    normalised_BWV = totals_BWV / words_BW[..., None] ** power
    best_BW = normalised_BWV.flatten(1).topk(width).indices
    vocabulary = logp_BWV.shape[-1]
    beam_BW = best_BW // vocabulary
    word_BW = best_BW % vocabulary
    first_rows_B = torch.arange(count, device=logits.device) * width
    chosen = (first_rows_B[:, None] + beam_BW).flatten()
    tokens_BWT = beams.tokens.flatten(0, 1)[chosen].unflatten(0, (count, width))
    grown = _Beams(
        torch.cat([tokens_BWT, word_BW[..., None]], dim=2),
        totals_BWV.flatten(1).gather(1, best_BW),
        words_BW.gather(1, beam_BW),
        beams.has_ended.gather(1, beam_BW) | (word_BW == special.eos),
    )
    return grown, chosen


def _start_tokens(images: Tensor, special: Tokenizer) -> Tensor:
    return torch.full((len(images), 1), special.bos, dtype=torch.int64, device=images.device)


def _writable(logits: Tensor, special: Tokenizer) -> Tensor:
    """Return the logits (N, V) without PAD and BOS."""
    unwritable = torch.tensor([special.pad, special.bos], device=logits.device)
    return logits.index_fill(1, unwritable, -torch.inf)
