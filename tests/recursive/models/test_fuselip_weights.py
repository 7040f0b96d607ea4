"""The public weights' layout, built of torch's own parts with the public names: a second FuseLIP and TiTok to
compare with.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from recstudy.base.errors import ConfigError, DataError
from recstudy.recursive import (
    Aligner,
    FuseLIPBackboneConfig,
    ImageTRM,
    PhantomCaptions,
    RunConfig,
    TrainConfig,
)
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.models.fuselip import VQ, FuseLIP
from recstudy.recursive.models.networks.fuselip import image_ids, image_only
from recstudy.recursive.models.networks.fuselip_weights import load_public

CONFIG = FuseLIP(
    width=8, heads=2, layers=2, text_vocabulary=10, bos=1, eos=2, codes=3, codebook=64, context=9
)
TITOK = VQ(
    name="tokenizer_tiny",
    size=8,
    patch=4,
    codes=3,
    codebook=64,
    width=8,
    layers=2,
    heads=2,
    token_size=4,
    legacy=True,
)
TEXTS = torch.tensor([[1, 5, 2, 0, 0], [1, 6, 7, 8, 2]])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(8, 32), "c_proj": nn.Linear(32, 8)})

    def forward(self, x, padding=None):
        normed = self.ln_1(x)
        x = x + self.attn(normed, normed, normed, key_padding_mask=padding, need_weights=False)[0]
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x))))


class PublicTiTok(nn.Module):
    def __init__(self, patch):
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.patch_embed = nn.Conv2d(3, 8, patch, patch)
        self.encoder.class_embedding = nn.Parameter(torch.zeros(1, 8))
        self.encoder.positional_embedding = nn.Parameter(torch.zeros(5, 8))
        self.encoder.latent_token_positional_embedding = nn.Parameter(torch.zeros(3, 8))
        self.encoder.ln_pre, self.encoder.ln_post = nn.LayerNorm(8), nn.LayerNorm(8)
        self.encoder.transformer = nn.ModuleList([Block(), Block()])
        self.encoder.conv_out = nn.Conv2d(8, 4, 1)
        self.latent_tokens = nn.Parameter(torch.zeros(3, 8))
        self.quantize = nn.ModuleDict({"embedding": nn.Embedding(64, 4)})
        self.decoder, self.pixel_decoder = nn.Linear(2, 2), nn.Linear(2, 2)  # never read

    def forward(self, images):
        e = self.encoder
        patches = e.patch_embed(images).flatten(2).transpose(1, 2)
        image = (
            torch.cat([e.class_embedding.expand(len(images), -1, -1), patches], 1) + e.positional_embedding
        )
        queries = (self.latent_tokens + e.latent_token_positional_embedding).expand(len(images), -1, -1)
        x = e.ln_pre(torch.cat([image, queries], 1))
        for block in e.transformer:
            x = block(x)
        latents = e.conv_out(e.ln_post(x[:, 5:]).reshape(len(images), 8, 3, 1))[..., 0].transpose(1, 2)
        return torch.cdist(
            F.normalize(latents, dim=-1), F.normalize(self.quantize["embedding"].weight, dim=-1)
        ).argmin(-1)


class Public(nn.Module):
    def __init__(self, vocabulary=75, patch=4):
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, 8)
        self.positional_embedding = nn.Parameter(torch.zeros(9, 8))
        self.transformer = nn.ModuleDict({"resblocks": nn.ModuleList([Block(), Block()])})
        self.ln_final = nn.LayerNorm(8)
        self.logit_scale, self.logit_bias = nn.Parameter(torch.zeros([])), nn.Parameter(torch.zeros([]))
        self.mask_prediction_head = nn.ModuleDict({"dense": nn.Linear(8, 8), "layer_norm": nn.LayerNorm(8)})
        self.mask_prediction_head.register_parameter("bias", nn.Parameter(torch.zeros(vocabulary)))
        self.mask_prediction_head["decoder"] = self.token_embedding
        self.image_tokenizer = nn.ModuleDict({"model": PublicTiTok(patch)})
        for weight in self.parameters():
            nn.init.normal_(weight)

    def forward(self, ids):
        x = self.token_embedding(ids) + self.positional_embedding[: ids.shape[1]]
        for block in self.transformer["resblocks"]:
            x = block(x, ids == 0)
        return F.normalize(self.ln_final(x)[torch.arange(len(ids)), (ids == 2).int().argmax(1)], dim=-1)

    def hidden(self, x):
        head = self.mask_prediction_head
        return head["layer_norm"](F.gelu(head["dense"](x))) @ self.token_embedding.weight.T + head.bias


@pytest.fixture
def public():
    torch.manual_seed(0)
    return Public()


def snapshot(folder, weights, **changes):
    text = {"vocab_size": 75, "width": 8, "heads": 2, "layers": 2, "pad_id": 0} | changes.pop("text", {})
    facts = {
        "text_config": text,
        "mask_pad": True,
        "image_tokenizer": "somebody/tokenizer_tiny",
        "use_eoi": False,
    }
    (folder / "config.json").write_text(json.dumps(facts | {"context_length": 9} | changes))
    torch.save(weights, folder / "pytorch_model.bin")
    return folder


def test_public_weights_give_the_public_answers(public, tmp_path):
    images = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    net, tokenizer = load_public(CONFIG, TITOK, snapshot(tmp_path, public.state_dict()))
    codes = tokenizer(images).ids

    assert torch.equal(codes, public.image_tokenizer["model"](images))
    assert len(codes.unique(dim=0)) > 1
    for ids in (image_only(CONFIG, codes), torch.cat([image_ids(CONFIG, codes[:2]), TEXTS], dim=1), TEXTS):
        torch.testing.assert_close(net(ids), public(ids))
    hidden = torch.randn(4, 8)
    assert net.mask_head is not None
    torch.testing.assert_close(net.mask_head(hidden, net.embed.weight), public.hidden(hidden))
    assert (net.log_scale.item(), net.bias.item()) == (public.logit_scale.item(), public.logit_bias.item())


def test_safetensors_are_read_too(public, tmp_path):
    snapshot(tmp_path, {})
    weights = public.state_dict()
    save_file(
        {name: weights[name] for name in weights if name != "mask_prediction_head.decoder.weight"},
        tmp_path / "model.safetensors",
    )

    torch.testing.assert_close(load_public(CONFIG, TITOK, tmp_path)[0](TEXTS), public(TEXTS))


EXTRA = {f"transformer.resblocks.{index}.ln_1.weight": torch.zeros(8) for index in (2, 3, 4, 5)}


@pytest.mark.parametrize(
    ("weights", "changes", "message"),
    [
        (
            {"ln_final.bias": None},
            {},
            r"1 keys \(ln_final.bias\) missing, 0 keys unexpected. Nothing was loaded",
        ),
        (
            EXTRA,
            {},
            r"0 keys missing, 4 keys \(.*2.ln_1.weight, .*3.ln_1.weight, .*4.ln_1.weight, ...\) unexpected",
        ),
        ({"ln_final.bias": torch.zeros(9)}, {}, r"ln_final.bias must have the shape \(8,\), but has \(9,\)"),
        (
            {"mask_prediction_head.decoder.weight": torch.zeros(75, 8)},
            {},
            "decoder.weight must equal token_embedding.weight",
        ),
        ({}, {"text": {"vocab_size": 74}}, "the vocabulary is 74, but the model has 75"),
        ({}, {"context_length": 77}, "the context is 77, but the model has 9"),
        (
            {},
            {"image_tokenizer": "somebody/other"},
            "the image tokenizer is 'other', but the model has 'tokenizer_tiny'",
        ),
        ({}, {"mask_pad": False}, "the masking of padding is False"),
    ],
)
def test_other_weights_than_the_models_are_refused(public, tmp_path, weights, changes, message):
    state = {name: value for name, value in (public.state_dict() | weights).items() if value is not None}
    with pytest.raises((ConfigError, DataError), match=message):
        load_public(CONFIG, TITOK, snapshot(tmp_path, state, **changes))
    with pytest.raises(
        ConfigError,
        match=r"needs 3 codes per image from a codebook of 64, but tokenizer_tiny has 3 codes from 65",
    ):
        load_public(
            CONFIG, TITOK.model_copy(update={"codebook": 65}), snapshot(tmp_path, public.state_dict())
        )


def test_missing_and_damaged_files_are_refused_and_nothing_in_a_pickle_is_executed(public, tmp_path):
    class Touch:
        def __reduce__(self):
            return Path.touch, (tmp_path / "executed",)

    with pytest.raises(
        DataError, match=r"has no config.json.*hf download chs20/FuseLIP-S-CC3M-MM --local-dir"
    ):
        load_public(CONFIG, TITOK, tmp_path)
    path = snapshot(tmp_path, public.state_dict() | {"x": Touch()}) / "pytorch_model.bin"
    for content, message in (
        (path.read_bytes(), "contains Python objects"),
        (path.read_bytes()[:1000], "is damaged or truncated"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"pytorch_model.bin {message}"):
            load_public(CONFIG, TITOK, tmp_path)
    assert not (tmp_path / "executed").exists()
    path.unlink()
    with pytest.raises(DataError, match=r"has no model.safetensors or pytorch_model.bin"):
        load_public(CONFIG, TITOK, tmp_path)


# ------------------------------------------------------------------------------------------- in a run


def aligner(folder):
    encoder = CONFIG.model_copy(update={"text_vocabulary": 16})
    return Aligner(
        encoder=encoder, tokenizer=TITOK.model_copy(update={"size": 16, "patch": 8}), files=str(folder)
    )


def config(model, **train):
    data = PhantomCaptions(size=16, vocabulary=16, length=8, limit=24)
    return RunConfig(data=data, model=model, train=TrainConfig(epochs=1, batch_size=8, **train))


@pytest.fixture
def downloaded(tmp_path, monkeypatch):
    """A model for captions of 16 words on images of 16x16, and the folder of its weights."""
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(7)  # weights that do not give all phantoms the same codes
    public = Public(16 + 1 + 64, patch=8)
    return public, snapshot(tmp_path, public.state_dict(), text={"vocab_size": 81})


def test_an_aligner_begins_with_public_weights_and_reads_images_by_their_tokenizer(downloaded):
    public, folder = downloaded
    training = training_of(config(aligner(folder)))
    test = training.data.test
    images, texts = (
        torch.from_numpy(test.images[test.rows]) / 255,
        torch.from_numpy(test.labels[test.rows]).long(),
    )
    codes = public.image_tokenizer["model"](images)
    cosines = (public(image_only(training.config.model.encoder, codes)) * public(texts)).sum(-1)
    list(training.epochs())
    result = training.finish()

    assert len(codes.unique(dim=0)) > 1
    assert result["metrics"]["cosine_before"] == pytest.approx(cosines.mean().item(), abs=1e-5)
    assert result["metrics"]["cosine_after"] != result["metrics"]["cosine_before"]
    assert result["tokenizer"]["image"] == "tokenizer_tiny (public weights)"
    assert not list(folder.glob("cache/vq-*"))  # none was trained


def test_a_folder_without_them_is_refused_when_the_config_is_read(downloaded, tmp_path):
    """A captioner's eyes are named by where they are in its config."""
    eyes = FuseLIPBackboneConfig(aligner=aligner(downloaded[1]), mode="image_only")
    good = config(ImageTRM(backbone="fuselip", fuselip=eyes))
    with pytest.raises(
        ConfigError,
        match=r"must be a folder with FuseLIP's config.json and weights, but \S+nowhere has no config.json",
    ):
        good.with_changes({"model.fuselip.aligner.files": str(tmp_path / "nowhere")})
    with pytest.raises(ConfigError, match=r"model.files must be an absolute path, .* but got 'weights'"):
        good.with_changes({"model.fuselip.aligner.files": "weights"})
