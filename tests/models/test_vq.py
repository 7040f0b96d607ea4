import pytest
import torch
from safetensors import safe_open

from recstudy.errors import ConfigError, DataError
from recstudy.models.fuselip import SMOKE, VQ
from recstudy.models.networks.vq import (
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


def quantiser(rows: list[list[float]], **fields) -> Quantiser:
    made = Quantiser(VQ(codebook=len(rows), token_size=len(rows[0]), **fields))
    made.codebook.data = torch.tensor(rows)
    return made


def network(**fields) -> VQNetwork:
    torch.manual_seed(0)
    return VQNetwork(TINY.model_copy(update=fields))


def test_straight_through_by_hand():
    """z = (0.9, 0.2) becomes code (1, 0); a loss 3 a + 5 b of it has the gradient (3, 5) at z and none at the codebook."""
    codes = quantiser([[1.0, 0.0], [0.0, 1.0]], normalised=False)
    z = torch.tensor([[[0.9, 0.2]]], requires_grad=True)
    straight = codes(z).straight
    (straight * torch.tensor([3.0, 5.0])).sum().backward()

    assert straight.tolist() == [[[1.0, 0.0]]]
    assert z.grad is not None
    assert z.grad.tolist() == [[[3.0, 5.0]]]
    assert codes.codebook.grad is None or not codes.codebook.grad.any()


@pytest.mark.parametrize(("normalised", "nearest"), [(True, 0), (False, 1)])
def test_the_nearest_code_is_so_by_cosine_where_codes_are_normalised(normalised, nearest):
    """Of z = (10, 4): cosine 0.928 with (0.1, 0) and 0.919 with (9, 9), but distances 10.7 and 5.1."""
    codes = quantiser([[0.1, 0.0], [9.0, 9.0]], normalised=normalised)(torch.tensor([[[10.0, 4.0]]]))

    assert codes.ids.tolist() == [[nearest]]
    assert codes.straight.norm().item() == pytest.approx(1.0 if normalised else 162**0.5)


def test_loss_by_hand():
    """One channel row 0, 0 drawn as 1, 0: MSE 1/2, gradient 1 (one difference, off by -1) times 0.1; z = 1, e = 3: 4 + 0.25 * 4."""
    codes = Codes(torch.zeros(1, 1), torch.zeros(1, 1, 1), torch.tensor([[[1.0]]]), torch.tensor([[[3.0]]]))
    again, images = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]]), torch.zeros(1, 1, 2, 2)

    assert vq_loss(again, images, codes, VQ()).item() == pytest.approx(0.5 + 0.1 * 1 + 4 + 0.25 * 4)


def test_commitment_pulls_latents_and_the_rest_pulls_codes():
    z, e = torch.tensor([[[1.0]]], requires_grad=True), torch.tensor([[[3.0]]], requires_grad=True)
    vq_loss(torch.zeros(1, 1, 2, 2), torch.zeros(1, 1, 2, 2), Codes(torch.zeros(1, 1), z, z, e), VQ()).backward()

    assert z.grad is not None
    assert e.grad is not None
    assert (z.grad.item(), e.grad.item()) == (0.25 * 2 * (1 - 3), 2 * (3 - 1))


def test_a_code_without_use_starts_again_at_a_latent():
    """Code 0 is all that is used; with a share of 0.2/2 at first, code 1 is at 0.05/2 after two batches of decay 1/2: dead."""
    codes = quantiser([[1.0, 0.0], [-1.0, 0.0]], usage_decay=0.5)
    codes.usage.fill_(NEW / 2)
    generator = torch.Generator().manual_seed(0)
    found = codes(torch.tensor([[[0.8, 0.6]]]))
    restarted = [codes.count_and_restart(found, generator) for _ in range(2)]

    assert restarted == [0, 1]
    torch.testing.assert_close(codes.codebook.detach(), torch.tensor([[1.0, 0.0], [0.8, 0.6]]))
    assert codes.usage.tolist() == pytest.approx([0.775, 0.1])


def test_codes_start_at_latents_of_the_first_batch():
    """All but codes that at least three of the 64 latents chose: a hundredth of 3/64 is more than a tenth of 1/256."""
    torch.manual_seed(0)
    codes = Quantiser(SMOKE)
    found = codes(torch.randn(4, 16, 12, generator=torch.Generator().manual_seed(0)))
    restarted = codes.count_and_restart(found, torch.Generator().manual_seed(0))

    popular = [code for code in range(256) if (found.ids == code).sum() >= 3]
    nearest = (codes.codebook @ found.latents.flatten(0, 1).T).max(1).values

    assert restarted == 256 - len(popular)
    assert [code for code in range(256) if nearest[code] < 0.9999] == popular


def test_ids_of_8_bit_pixels_are_those_of_the_shares_and_do_not_depend_on_the_batch():
    tokenizer = network().tokenizer
    images = torch.randint(0, 256, (5, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

    ids = torch.cat([tokenizer(unit(part)).ids for part in images.split(2)])

    assert ids.shape == (5, 3)
    assert torch.equal(ids, tokenizer(images.float() / 255).ids)
    assert len(ids.unique(dim=0)) > 1


def test_every_pixel_and_every_weight_takes_part():
    net = network()
    images = torch.rand(4, 3, 8, 8)
    again, codes = net(images)
    vq_loss(again, images, codes, net.config).backward()

    assert again.shape == images.shape
    assert [name for name, weight in net.named_parameters() if weight.grad is None or not weight.grad.any()] == []


def test_patches_are_drawn_where_they_were_read():
    """A decoder that draws its place's number: patch 0 is top left, patch 1 beside it, patch 2 below."""
    decoder = network().decoder
    decoder.layers, decoder.norm_in, decoder.norm_out = (torch.nn.Sequential(), *(torch.nn.Identity() for _ in range(2)))
    decoder.mask_token.data.zero_()
    decoder.places.data = torch.arange(4.0)[:, None].expand(4, 8).clone()
    decoder.pixels.weight.data.fill_(1 / 8)
    decoder.pixels.bias.data.zero_()

    image = decoder(torch.zeros(1, 3, 2))[0, 0]

    assert image[::4, ::4].tolist() == [[0.0, 1.0], [2.0, 3.0]]


def test_patches_that_do_not_tile_are_refused():
    with pytest.raises(ConfigError, match="patch must divide the image's 64x64 pixels, but got 7"):
        VQ(patch=7)


def test_a_saved_tokenizer_comes_back_with_its_facts(tmp_path):
    net, path = network(), tmp_path / "tokenizer.safetensors"
    header = save_tokenizer(net, {"psnr": 21.5}, "Phantom", path)
    again, read = load_tokenizer(path)
    images = torch.rand(2, 3, 8, 8)

    assert read == header
    assert read["title"] == "standin-vq (trained by recstudy on Phantom; not TiTok; not ImageNet)"
    assert torch.equal(again(images)[0], net(images)[0])


def test_the_hash_follows_config_and_weights(tmp_path):
    net = network()
    first = save_tokenizer(net, {}, "Phantom", tmp_path / "a")["hash"]
    other = save_tokenizer(network(commitment=0.5), {}, "Phantom", tmp_path / "b")["hash"]
    net.decoder.pixels.bias.data[0] += 1e-6

    assert len({first, other, save_tokenizer(net, {}, "Phantom", tmp_path / "c")["hash"]}) == 3
    assert save_tokenizer(network(), {"psnr": 3}, "Other", tmp_path / "d")["hash"] == first


def test_a_damaged_or_foreign_file_is_refused(tmp_path):
    path = tmp_path / "tokenizer.safetensors"
    with pytest.raises(DataError, match=r"no tokenizer at "):
        load_tokenizer(path)
    save_tokenizer(network(), {}, "Phantom", path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="is damaged: its weights are not those its header names"):
        load_tokenizer(path)
    path.write_bytes(b"nothing")
    with pytest.raises(DataError, match="is damaged: it is not a safetensors file"):
        load_tokenizer(path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    from safetensors.torch import save_file

    save_file({"weight": torch.zeros(1)}, tmp_path / "other")

    with safe_open(tmp_path / "other", framework="pt") as file:
        assert file.metadata() is None
    with pytest.raises(DataError, match="holds no image tokenizer of this version"):
        load_tokenizer(tmp_path / "other")


def test_an_unknown_field_in_the_header_is_named(tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.safetensors"
    save_tokenizer(network(), {}, "Phantom", path)
    path.write_bytes(path.read_bytes().replace(b'codebook\\"', b'codebock\\"'))

    with pytest.raises(ConfigError, match=r"no field 'tokenizer.codebock'.*Did you mean 'codebook'"):
        load_tokenizer(path)


def test_legacy_latents_are_folded_without_a_transpose():
    """Of K = 2 latents (0 1 2 3) and (4 5 6 7), D = 4: rows of the fold are (0 1), (2 3), (4 5), (6 7), so columns 0 2 4 6."""
    encoder = ImageTokenizer(VQ(size=8, patch=8, codes=2, width=4, layers=1, heads=1, token_size=4, legacy=True)).encoder

    class Numbers(torch.nn.Module):
        def forward(self, x):
            return torch.arange(8.0).view(1, 2, 4)

    encoder.norm_out, encoder.project = Numbers(), torch.nn.Identity()  # type: ignore[assignment]

    assert encoder(torch.rand(1, 3, 8, 8)).tolist() == [[[0, 2, 4, 6], [1, 3, 5, 7]]]
