"""Retrieval scores of the selection split take no more memory than their cosines: real data sets have ten thousand pairs."""

from pathlib import Path

import torch
from largest import Largest

from recstudy.config import RunConfig, TrainConfig
from recstudy.data import PhantomCaptions
from recstudy.data.cache import load
from recstudy.models import VQ, Aligner, FuseLIP
from recstudy.tasks.captioning.retrieval import recalls, selection_scores
from recstudy.train.loop import Training

ALIGNER = Aligner(
    encoder=FuseLIP(width=8, heads=1, layers=1, text_vocabulary=64, bos=1, eos=2, codes=4, codebook=8, context=40),
    tokenizer=VQ(size=32, patch=16, codes=4, codebook=8, width=8, layers=1, heads=1),
    tokenizer_epochs=1,
)


def test_equal_captions_are_found_in_the_memory_of_the_cosines():
    """60 pairs of 512 tokens: 14,400 bytes of cosines, where tokens x pairs x pairs would be 1.8 MB."""
    tokens = torch.arange(60)[:, None] // 2 + torch.zeros(512, dtype=torch.int64)  # each caption twice
    features = torch.nn.functional.one_hot(torch.arange(60) // 2).float()

    with Largest() as largest:
        found = recalls(features, features, tokens)

    assert found == {1: 100, 5: 100, 10: 100}
    assert largest.bytes <= max(60 * 60 * 8, tokens.nbytes)


def test_judging_keeps_nothing_for_a_gradient():
    config = RunConfig(data=PhantomCaptions(limit=32, size=32), model=ALIGNER, train=TrainConfig(epochs=1, batch_size=8))
    training = Training(config, load(config.data, Path()), torch.device("cpu"))
    kept = []

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor.shape), lambda tensor: tensor):
        selection_scores(training.state.network, training._selection, config)

    assert not kept
