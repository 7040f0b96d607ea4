"""The public weights' layout, built of torch's own parts with the public names: a second FuseLIP and TiTok to
compare with.
"""

import json
import re
from pathlib import Path

import pytest
import torch
import yaml
from refusals import refused
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from recstudy.base.errors import ConfigError, DataError
from recstudy.records import Results
from recstudy.recursive import (
    Aligner,
    FuseLIPBackboneConfig,
    ImageTRM,
    PhantomCaptions,
    RunConfig,
    TrainConfig,
)
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.models.fuselip import TITOK_S128, VQ, FuseLIP
from recstudy.recursive.models.networks.fuselip import FuseLIPNetwork, image_ids, image_only
from recstudy.recursive.models.networks.fuselip_weights import ENCODER, LAYERS, load_public
from recstudy.recursive.models.networks.fuselip_weights import TITOK as TITOK_NAMES
from recstudy.recursive.models.networks.vq import ImageTokenizer
from recstudy.recursive.models.networks.weight_files import public_names
from recstudy.recursive.program import RECURSIVE_MODELS

CONFIG = FuseLIP(
    width=8, heads=2, layers=2, text_vocabulary=16, bos=1, eos=2, codes=3, codebook=64, context=9
)
TITOK = VQ(
    name="tokenizer_tiny",
    size=16,
    patch=8,
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
    def __init__(self, vocabulary=16 + 1 + 64, patch=8):
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


ALIGNER = Aligner(encoder=CONFIG, tokenizer=TITOK)


def config(files, model=ALIGNER, part="model"):
    data = PhantomCaptions(size=16, vocabulary=16, length=8, limit=24)
    run = RunConfig(data=data, model=model, train=TrainConfig(epochs=1, batch_size=8))
    return run.with_changes({f"{part}.files": str(files)})


@pytest.fixture
def public():
    torch.manual_seed(0)
    return Public()


def snapshot(folder, weights, **changes):
    text = {"vocab_size": 81, "width": 8, "heads": 2, "layers": 2, "pad_id": 0} | changes.pop("text", {})
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
    images = torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    net, tokenizer = load_public(config(""), snapshot(tmp_path, public.state_dict()))
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

    torch.testing.assert_close(load_public(config(tmp_path), Path())[0](TEXTS), public(TEXTS))


EXTRA = {f"transformer.resblocks.{index}.ln_1.weight": torch.zeros(8) for index in (2, 3, 4, 5)}


@refused(globals(), "weights changes", "other weights than the model's")
def test_other_weights_than_the_models_are_refused_with_the_settings_to_change(
    public, tmp_path, weights, changes, message
):
    state = {name: value for name, value in (public.state_dict() | weights).items() if value is not None}
    snapshot(tmp_path, state, **changes)
    with pytest.raises((ConfigError, DataError), match=message):
        RECURSIVE_MODELS.check_data([config(tmp_path)], Path())


def test_a_run_with_the_settings_that_a_refusal_names_is_accepted(tmp_path):
    """The real tokenizer and CLIP's ids. A path of weights is relative to the folder of the data."""
    encoder = FuseLIP(width=8, heads=2, layers=1)
    parts = (
        (FuseLIPNetwork(encoder), ENCODER | LAYERS),
        (ImageTokenizer(TITOK_S128), TITOK_NAMES | LAYERS),
    )
    weights = {
        name: part.state_dict()[own]
        for part, rules in parts
        for own, name in public_names(part, rules).items()
    }
    text = {"vocab_size": encoder.vocabulary, "layers": 1}
    (tmp_path / "small").mkdir()
    snapshot(
        tmp_path / "small", weights, text=text, context_length=180, image_tokenizer=f"a/{TITOK_S128.name}"
    )
    with pytest.raises(
        DataError, match=r"embedding must have the shape \(9, 8\), but has \(180, 8\)"
    ) as refusal:
        RECURSIVE_MODELS.check_data([config("small")], tmp_path)
    changes = re.findall(r"(\S+)=(\S+)", str(refusal.value))

    run = config("small").with_changes({name: yaml.safe_load(value) for name, value in changes})
    assert RECURSIVE_MODELS.check_data([run], tmp_path) == []
    # contrastive training alone does not read the head of masked modelling
    assert RECURSIVE_MODELS.check_data([run.with_changes({"model.encoder.mask_rate": 0})], tmp_path) == []


def test_a_captioner_is_refused_for_its_long_captions_and_not_for_its_shapes(public, tmp_path):
    encoder = CONFIG.model_copy(update={"context": 11})
    eyes = FuseLIPBackboneConfig(aligner=Aligner(encoder=encoder, tokenizer=TITOK))
    run = config(
        snapshot(tmp_path, public.state_dict()),
        ImageTRM(backbone="fuselip", fuselip=eyes),
        part="model.fuselip.aligner",
    )
    message = (
        "positional_embedding has 9 positions, but 8 tokens of data.length and 3 codes of the image need 11."
        " Set data.length=6 model.fuselip.aligner.encoder.context=9"
    )
    with pytest.raises(ConfigError, match=f"{re.escape(message)}$"):
        RECURSIVE_MODELS.check_data([run], Path())
    changes = {"data.length": 6, "model.fuselip.aligner.encoder.context": 9}
    assert RECURSIVE_MODELS.check_data([run.with_changes(changes)], Path()) == []


def test_missing_and_damaged_files_are_refused_and_nothing_in_a_pickle_is_executed(public, tmp_path):
    class Touch:
        def __reduce__(self):
            return Path.touch, (tmp_path / "executed",)

    path = snapshot(tmp_path, public.state_dict() | {"x": Touch()}) / "pytorch_model.bin"
    for content, message in (
        (path.read_bytes(), "contains Python objects"),
        (path.read_bytes()[:1000], "is damaged or truncated"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"pytorch_model.bin {message}"):
            load_public(config(tmp_path), Path())
    assert not (tmp_path / "executed").exists()
    path.with_name("config.json").unlink()
    with pytest.raises(DataError, match=r"has no config.json. Download them"):
        load_public(config(tmp_path), Path())


# ------------------------------------------------------------------------------------------- in a run


@pytest.fixture
def downloaded(tmp_path, monkeypatch):
    """A model for captions of 16 words on images of 16x16, and the folder of its weights."""
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    torch.manual_seed(7)  # weights that do not give all phantoms the same codes
    public = Public()
    return public, snapshot(tmp_path, public.state_dict())


def test_an_aligner_begins_with_public_weights_and_reads_images_by_their_tokenizer(downloaded):
    public, folder = downloaded
    training = training_of(config(folder))
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


def test_missing_weights_are_a_line_of_the_dry_run_and_stop_a_run(tmp_path):
    runs = [config("nowhere"), config("nowhere").with_changes({"model.encoder.mask_rate": 0})]
    message = (
        f"FuseLIP's weights not found: {tmp_path / 'nowhere'} has no model.safetensors or pytorch_model.bin"
    )

    assert RECURSIVE_MODELS.reads_data(runs, tmp_path)
    (line,) = RECURSIVE_MODELS.check_data(runs, tmp_path)
    assert line.startswith(f"Not checked: {message}. Download them: `hf download chs20/FuseLIP-S-CC3M-MM")
    with pytest.raises(DataError, match=re.escape(message)):
        RECURSIVE_MODELS.check(runs, Results(tmp_path), tmp_path, False, None)
