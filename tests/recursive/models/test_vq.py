import pytest
import torch
from safetensors.torch import save
from torch import nn

from recstudy.base.errors import ConfigError, DataError
from recstudy.recursive.models.fuselip import VQ
from recstudy.recursive.models.networks.vq import (
    NEW,
    Codes,
    ImageTokenizer,
    Quantiser,
    VQNetwork,
    load_tokenizer,
    save_tokenizer,
    unit,
    vq_loss,
)

TINY = VQ(size=8, patch=4, codes=3, codebook=8, width=8, layers=1, heads=2, token_size=2)


def quantiser(rows, **fields):
    vector_quantiser = Quantiser(VQ(codebook=len(rows), token_size=len(rows[0]), **fields))
    vector_quantiser.codebook.data = torch.tensor(rows)
    return vector_quantiser


def network(**fields):
    torch.manual_seed(0)
    return VQNetwork(TINY.model_copy(update=fields))


def test_straight_through_by_hand():
    """z = (0.9, 0.2) becomes code (1, 0); a loss 3 a + 5 b of it has the gradient (3, 5) at z and none at the
    codebook.
    """
    codes, z = (
        quantiser([[1.0, 0.0], [0.0, 1.0]], normalised=False),
        torch.tensor([[[0.9, 0.2]]], requires_grad=True),
    )
    straight = codes(z).straight
    (straight * torch.tensor([3.0, 5.0])).sum().backward()

    assert (straight.tolist(), z.grad.tolist()) == ([[[1.0, 0.0]]], [[[3.0, 5.0]]])
    assert codes.codebook.grad is None or not codes.codebook.grad.any()


@pytest.mark.parametrize(("normalised", "nearest"), [(True, 0), (False, 1)])
def test_the_nearest_code_is_so_by_cosine_where_codes_are_normalised(normalised, nearest):
    """Of z = (10, 4): cosine 0.928 with (0.1, 0) and 0.919 with (9, 9), but distances 10.7 and 5.1."""
    codes = quantiser([[0.1, 0.0], [9.0, 9.0]], normalised=normalised)(torch.tensor([[[10.0, 4.0]]]))

    assert codes.ids.tolist() == [[nearest]]
    assert codes.straight.norm().item() == pytest.approx(1.0 if normalised else 162**0.5)


def test_loss_by_hand():
    """One channel row 0, 0 drawn as 1, 0: MSE 1/2, gradient 1 (one difference, off by -1) times 0.1; z = 1, e
    = 3: 4 + 0.25 * 4. Commitment pulls the latents, the rest the codes."""
    z, e = torch.tensor([[[1.0]]], requires_grad=True), torch.tensor([[[3.0]]], requires_grad=True)
    reconstruction, images = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]]), torch.zeros(1, 1, 2, 2)
    loss = vq_loss(reconstruction, images, Codes(torch.zeros(1, 1), torch.zeros(1, 1, 1), z, e), VQ())
    loss.backward()

    assert loss.item() == pytest.approx(0.5 + 0.1 * 1 + 4 + 0.25 * 4)
    assert (z.grad.item(), e.grad.item()) == (0.25 * 2 * (1 - 3), 2 * (3 - 1))


def test_a_code_without_use_starts_again_at_a_latent():
    """Code 0 is all that is used; with a share of 0.2/2 at first, code 1 is at 0.05/2 after two batches of
    decay 1/2: dead.
    """
    codes = quantiser([[1.0, 0.0], [-1.0, 0.0]], usage_decay=0.5)
    codes.usage.fill_(NEW / 2)
    generator = torch.Generator().manual_seed(0)
    token_codes = codes(torch.tensor([[[0.8, 0.6]]]))
    restarted = [codes.count_and_restart(token_codes, generator) for _ in range(2)]

    assert restarted == [0, 1]
    torch.testing.assert_close(codes.codebook.detach(), torch.tensor([[1.0, 0.0], [0.8, 0.6]]))
    assert codes.usage.tolist() == pytest.approx([0.775, 0.1])


def test_patches_are_drawn_where_they_were_read():
    """A decoder that draws its place's number: patch 0 is top left, patch 1 beside it, patch 2 below."""
    decoder = network().decoder
    decoder.layers, decoder.norm_in, decoder.norm_out = nn.Sequential(), nn.Identity(), nn.Identity()
    decoder.places.data = torch.arange(4.0)[:, None].expand(4, 8).clone()
    for weight, value in ((decoder.mask_token, 0), (decoder.pixels.weight, 1 / 8), (decoder.pixels.bias, 0)):
        nn.init.constant_(weight, value)

    assert decoder(torch.zeros(1, 3, 2))[0, 0, ::4, ::4].tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_a_saved_tokenizer_comes_back_and_its_hash_follows_config_and_weights(tmp_path):
    net, images = network(), torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    header = save_tokenizer(net, {"psnr": 21.5}, "Phantom", tmp_path / "a")
    restored, read = load_tokenizer(tmp_path / "a")
    assert read == header
    assert read["title"] == "standin-vq (trained by recstudy on Phantom; not TiTok; not ImageNet)"
    assert torch.equal(restored(unit(images))[0], net(images / 255)[0])

    other_hash = save_tokenizer(network(commitment=0.5), {}, "Phantom", tmp_path / "b")["hash"]
    same_hash = save_tokenizer(network(), {"psnr": 3}, "Other", tmp_path / "c")["hash"]
    net.decoder.pixels.bias.data[0] += 1e-6
    assert same_hash == header["hash"]
    assert len({same_hash, other_hash, save_tokenizer(net, {}, "Phantom", tmp_path / "d")["hash"]}) == 3


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda content: content[:-1] + bytes([content[-1] ^ 1]),
            "is damaged: its weights do not match the hash in its header",
        ),
        (lambda content: b"nothing", r"is damaged or missing \(.*\)\. Train the tokenizer again"),
        (lambda content: save({"weight": torch.zeros(1)}), "is not an image tokenizer of this version"),
        (
            lambda content: content.replace(b'codebook\\"', b'codebock\\"'),
            r"Unknown field 'tokenizer.codebock'. Did you mean 'codebook'",
        ),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(tmp_path, damage, message):
    path = tmp_path / "tokenizer.safetensors"
    with pytest.raises(DataError, match="is damaged or missing "):
        load_tokenizer(path)
    save_tokenizer(network(), {}, "Phantom", path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises((ConfigError, DataError), match=message):
        load_tokenizer(path)


def test_legacy_latents_are_folded_without_a_transpose():
    """Of K = 2 latents (0 1 2 3) and (4 5 6 7), D = 4: rows of the fold are (0 1), (2 3), (4 5), (6 7), so
    columns 0 2 4 6.
    """
    encoder = ImageTokenizer(
        VQ(size=8, patch=8, codes=2, width=4, layers=1, heads=1, token_size=4, legacy=True)
    ).encoder
    encoder.norm_out, encoder.project = nn.Identity(), nn.Identity()
    encoder.norm_out.forward = lambda x: torch.arange(8.0).view(1, 2, 4)

    assert encoder(torch.rand(1, 3, 8, 8)).tolist() == [[[0, 2, 4, 6], [1, 3, 5, 7]]]
