import pytest
import torch

from recstudy.recursive.tasks.captioning.tokenizer import codebook_use, psnr


def test_psnr_by_hand():
    """Errors of 0.1 and 0.01 everywhere: 20 dB and 40 dB, so 30 dB; what is beyond 1 is cut off to 1
    first.
    """
    images = torch.full((2, 3, 2, 2), 0.5)
    reconstruction = images + torch.tensor([0.1, -0.01]).view(2, 1, 1, 1)

    assert psnr(reconstruction, images) == pytest.approx(30.0, rel=1e-5)
    assert psnr(torch.tensor([[1.7]]), torch.tensor([[0.9]])) == pytest.approx(20.0, rel=1e-5)


def test_codebook_use_by_hand():
    """Two of eight codes, as often as each other: 25 % and a perplexity of 2; three to one: exp of 0.5623
    nats.
    """
    assert codebook_use(torch.tensor([[0, 5], [5, 0]]), 8) == pytest.approx(
        {"used_percent": 25.0, "perplexity": 2.0}
    )
    assert codebook_use(torch.tensor([[0, 5], [5, 5]]), 8)["perplexity"] == pytest.approx(1.7548, rel=1e-4)
