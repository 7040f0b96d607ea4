import torch

from recstudy.models import ShowTell

TOKENS = torch.tensor([[1, 4, 5], [1, 7, 4]])


def test_the_image_is_the_first_word():
    """Equations (1)-(4), cell by cell; the image's own state gives no logit."""
    torch.manual_seed(0)
    network = ShowTell(width=8, backbone="small", weights="random", tuned=False).build((3, 64, 64), 9)
    images, lstm = torch.randn(2, 256), network.lstm
    h = c = torch.zeros(2, 8)

    output, carry = network(images, network.start(images, TOKENS))

    assert output.logits.shape == (2, 3, 9)
    assert len(carry) == 1
    for place in range(-1, 3):
        x = network.eyes.project(images) if place < 0 else network.embed.weight[TOKENS[:, place]]
        i, f, g, o = (x @ lstm.weight_ih_l0.T + lstm.bias_ih_l0 + h @ lstm.weight_hh_l0.T + lstm.bias_hh_l0).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        if place >= 0:
            torch.testing.assert_close(output.logits[:, place], network.answer(h))
