"""What a captioner promises, in float64, where causality is exact."""

import torch
from torch import Tensor, nn

from recstudy.config import PAD, RunConfig
from recstudy.contract.checks import Untouched, hold, same, unreached
from recstudy.models.captioners import CaptionModel
from recstudy.models.networks.caption import Captioner, reorder
from recstudy.models.networks.contract import Output, build

EXACT = 1e-12
FIRST = 3  # token behind PAD, BOS and EOS


def network_of(config: RunConfig) -> Captioner:
    """With a halting head that reads something."""
    torch.manual_seed(0)
    network = build(config.model, config.data).double().eval()
    hold(isinstance(network, Captioner), f"{type(network).__name__} is no Captioner")
    assert isinstance(network, Captioner)
    if config.model.halts:
        nn.init.normal_(network.get_parameter("q_head.weight"))
    return network


def some_images(config: RunConfig, count: int) -> Tensor:
    model = config.model
    assert isinstance(model, CaptionModel)
    shape = (count, *model.input_shape(config.data.shape))
    return (torch.rand(shape) if model.reads_features else torch.randint(0, 256, shape)).double()


def some_tokens(config: RunConfig, count: int, length: int) -> Tensor:
    bos = torch.full((count, 1), config.data.special_tokens[1])
    return torch.cat([bos, torch.randint(FIRST, config.data.classes, (count, length - 1))], dim=1)


def after(network: Captioner, images: Tensor, tokens: Tensor, steps: int = 2) -> Output:
    """The output of the last of some supervision steps."""
    carry = network.start(images, tokens)
    for _ in range(steps):
        output, carry = network(images, carry)
    return output


def shapes_and_gradients(config: RunConfig) -> None:
    """Shapes are right, and every weight gets a gradient, those of a tuned backbone too."""
    config = config.with_changes({"model.tuned": True})
    model = config.model
    network, images, tokens = network_of(config).train(), some_images(config, 3), some_tokens(config, 3, 5)

    carry = network.start(images, tokens)
    output, after_one = network(images, carry)
    (output.logits.square().sum() + (0 if output.halt is None else output.halt.square().sum())).backward()

    given = tuple(output.logits.shape)
    hold(given == (3, 5, config.data.classes), f"logits of 3 captions of 5 tokens are {given}")
    heads = output.halt is not None, output.proceed is not None
    hold(heads == (model.halts, model.bootstraps), "`halts` and `bootstraps` are not what the output has")
    hold(carry[0] is after_one[0] is tokens, "the carry's first part is not the tokens")
    hold(all(len(part) == 3 for part in after_one), "a part of the carry does not have the batch as its first dimension")
    hold((len(carry) > 1) == model.recursive, f"`recursive` is {model.recursive}, but the carry has {len(carry)} parts")
    hold(not unreached(network), f"no gradient reaches {', '.join(unreached(network))}")


def carry_goes_on(config: RunConfig) -> None:
    """A recursive family's second supervision step goes on where the first stopped; any other's repeats it."""
    network, images, tokens = network_of(config), some_images(config, 2), some_tokens(config, 2, 6)

    equal = torch.equal(after(network, images, tokens, 1).logits, after(network, images, tokens, 2).logits)
    hold(equal != config.model.recursive, "`recursive` is not what two steps say")


def forward_and_next_are_pure(config: RunConfig) -> None:
    """Two calls give the same, and nothing is written on the module."""
    network, images, tokens = network_of(config), some_images(config, 2), some_tokens(config, 2, 6)

    with Untouched(network):
        whole = after(network, images, tokens).logits[:, -1]
        one, other = (network.next(images, tokens, 2)[0] for _ in range(2))

    hold(same(whole, one, EXACT), "`next` gives other logits than `forward`")
    hold(torch.equal(one, other), "a second call gives other logits: something is drawn or kept in evaluation")


def captions_are_judged_alone(config: RunConfig) -> None:
    """In evaluation no caption sees the others of its batch."""
    network, images, tokens = network_of(config), some_images(config, 4), some_tokens(config, 4, 6)

    together, alone = after(network, images, tokens).logits[2:3], after(network, images[2:3], tokens[2:3]).logits

    hold(same(together, alone, EXACT), "a caption's logits depend on the others of its batch")


def no_later_token_is_seen(config: RunConfig) -> None:
    """No logit depends on a later token, and each on those before it."""
    network, images, tokens = network_of(config), some_images(config, 2), some_tokens(config, 2, 6)
    logits = after(network, images, tokens).logits

    for place in range(1, 6):
        others = after(network, images, _changed(tokens, place)).logits
        hold(same(others[:, :place], logits[:, :place], EXACT), f"a logit before token {place} depends on it: it leaks")
        seen = (others[:, place:] - logits[:, place:]).abs().amax(-1).min()
        hold(seen > 1e-6, f"a logit behind token {place} does not depend on it")


def _changed(tokens: Tensor, place: int) -> Tensor:
    changed = tokens.clone()
    changed[:, place] = torch.where(changed[:, place] == FIRST, FIRST + 1, FIRST)
    return changed


def image_is_seen(config: RunConfig) -> None:
    """Every logit depends on the image."""
    network, tokens = network_of(config), some_tokens(config, 2, 6)

    one, other = (after(network, some_images(config, 2), tokens).logits for _ in range(2))

    hold((one - other).abs().amax(-1).min() > 1e-6, "a logit does not depend on the image")


def padding_changes_nothing(config: RunConfig) -> None:
    """Padding behind a caption changes nothing."""
    network, images, tokens = network_of(config), some_images(config, 2), some_tokens(config, 2, 6)
    padded = torch.cat([tokens, torch.full((2, 3), PAD)], dim=1)

    short, long = after(network, images, tokens), after(network, images, padded)

    hold(same(long.logits[:, :6], short.logits, EXACT), "logits depend on the padding")
    if short.halt is not None and long.halt is not None:
        hold(same(long.halt.double(), short.halt.double(), 1e-6), "halting depends on the padding")  # a float32 mean


def cached_decoding_is_exact(config: RunConfig) -> None:
    """Decoding token by token gives what `forward` does, though the captions' order changes on the way, as in a beam search."""
    network, images, tokens = network_of(config), some_images(config, 3), some_tokens(config, 3, 6)
    logits, cache = network.next(images, tokens[:, :2], 2)

    for length in range(2, 7):
        whole = after(network, images, tokens[:, :length]).logits[:, -1]
        hold(same(logits, whole, EXACT), f"the cached logits of token {length} are not those of `forward`")
        rows = torch.tensor([2, 0, 0] if length == 3 else [0, 1, 2])
        images, tokens, cache = images[rows], tokens[rows], reorder(cache, rows)
        if length < 6:
            logits, cache = network.next(images, tokens[:, : length + 1], 2, cache)


def takes_a_step(config: RunConfig) -> None:
    """One optimiser step lowers the loss."""
    network, images, tokens = network_of(config).train(), some_images(config, 2), some_tokens(config, 2, 6)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)

    def loss() -> Tensor:
        return nn.functional.cross_entropy(after(network, images, tokens[:, :-1], 1).logits.transpose(1, 2), tokens[:, 1:])

    before = loss()
    before.backward()
    optimizer.step()

    hold(loss() < before, "a step with AdamW does not lower the loss")


OF_NETWORKS = shapes_and_gradients, carry_goes_on, forward_and_next_are_pure, captions_are_judged_alone
OF_SWITCHES = no_later_token_is_seen, image_is_seen, padding_changes_nothing, cached_decoding_is_exact, takes_a_step
