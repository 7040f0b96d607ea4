from collections.abc import Callable

import pytest
import torch

from recstudy.recursive import METRICS, Augment, Digits
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.models.networks.contract import Output
from recstudy.recursive.testing import tiny_model, tiny_run
from recstudy.recursive.train import evaluate
from recstudy.recursive.train.evaluate import DivergenceError, predict
from recstudy.recursive.train.loop import Training
from recstudy.recursive.train.losses import step_loss

RUN = tiny_run(tiny_model(layers=1, latent_steps=1), Digits(limit=64), augment=Augment(mixup=0.4))
# three steps whatever it is sure of
FIXED = {"train__supervision_steps": 3, "train__halt_threshold": 1, "train__epochs": 1}


def training(**changes) -> Training:
    return training_of(RUN.with_changes({name.replace("__", "."): value for name, value in changes.items()}))


def weights(run: Training) -> list[torch.Tensor]:
    return list(run.state.network.state_dict().values())


def test_the_same_seed_gives_the_same_bits_whatever_ran_before():
    first = training()
    lines = list(first.epochs())
    torch.manual_seed(1234)
    torch.rand(17)
    other_seed = training(seed=5)
    list(other_seed.epochs())
    same_seed = training()

    for line, repeated in zip(lines, same_seed.epochs(), strict=True):
        timeless = {
            "train_loss",
            "selection_loss",
            "selection_top1_accuracy",
            "learning_rate",
            "supervision_steps_used",
        }
        assert {name: line[name] for name in timeless} == {name: repeated[name] for name in timeless}
    assert all(map(torch.equal, weights(first), weights(same_seed)))
    assert not all(map(torch.equal, weights(first), weights(other_seed)))


def test_a_loss_at_the_last_step_alone_is_the_one_that_is_stepped_on():
    """Two steps with an attached carry: the gradient of the second one's loss, and not that of their sum."""
    run = training(
        **FIXED | {"train__supervision_steps": 2},
        train__detach_carry=False,
        train__supervised="last",
        model__dropout=0,
    )
    batch, stepped = next(run._train.epoch(0)), []
    run._step = lambda loss: stepped.append(loss.item())
    losses = run.train_batch(batch)

    assert stepped == [losses[1].item()]


def test_attached_gradient_is_plain_autograd_through_the_chain():
    run = training(**FIXED | {"train__supervision_steps": 2}, train__detach_carry=False, model__dropout=0)
    network = run.state.network
    batch = next(run._train.epoch(0))
    gradients = []
    run._step = lambda loss: gradients.append(torch.autograd.grad(loss, network.z_start)[0])  # type: ignore[method-assign]
    run.train_batch(batch)

    first, carry = network(batch.images, network.start(batch.images))
    second, _ = network(batch.images, carry)
    loss = sum(step_loss(output, batch, run.task).mean() for output in (first, second))
    (expected,) = torch.autograd.grad(loss, network.z_start)

    torch.testing.assert_close(gradients[0], expected)


@pytest.mark.parametrize(("bias", "steps"), [(20.0, 1), (-20.0, 4)])
def test_a_batch_halts_when_the_mean_probability_exceeds_tau(bias, steps):
    run = training(train__supervision_steps=4, train__epochs=1, train__learning_rate=1e-9)
    torch.nn.init.constant_(run.state.network.halt.bias, bias)

    (line,) = run.epochs()

    assert line["supervision_steps_used"] == steps


def test_tau_is_compared_with_the_mean_not_with_each_image():
    run = training(train__supervision_steps=2)
    batch = next(run._train.epoch(0))
    half = torch.full((len(batch.labels),), -20.0)
    half[: len(half) // 2] = 20.0  # mean 0.5 does not exceed 0.5
    assert not run._halts(Output(torch.zeros(1), half), batch)
    half[len(half) // 2] = 20.0
    assert run._halts(Output(torch.zeros(1), half), batch)


def test_a_loss_that_is_not_finite_ends_the_run():
    run = training()
    run.state.network.classify.weight.data.fill_(float("nan"))

    with pytest.raises(DivergenceError, match=r"the training loss is nan in epoch 1, since update 1$"):
        next(run.epochs())


def at_each_step(run: Training, observe: Callable[[], float]) -> list[float]:
    """Return what there was to see before each step of the optimiser."""
    observations, step = [], run.state.optimizers[0].step
    run.state.optimizers[0].step = lambda: (observations.append(observe()), step())[1]  # type: ignore[method-assign]
    list(run.epochs())
    return observations


def test_the_gradient_is_clipped_to_its_global_norm():
    run = training(train__gradient_clip=0.5, train__epochs=1, train__augment=Augment().model_dump())
    weights = list(run.state.network.parameters())

    norms = at_each_step(
        run, lambda: torch.nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None]).item()
    )

    assert max(norms) <= 0.5 + 1e-4


def test_extra_loss_of_a_network_is_trained_and_recorded_separately():
    """3 x the sum of a weight, beside the task's loss: its gradient is greater by 3, and `train_loss` is the
    task's own.
    """
    base, extended = training(train__epochs=1), training(train__epochs=1)
    weight, original_forward = extended.state.network.y_start, extended.state.network.forward

    def adds(images, carry):
        output, carry = original_forward(images, carry)
        return output._replace(extra=3 * weight.sum()), carry

    extended.state.network.forward = adds
    expected_extra = 3 * weight.sum().item()
    batch = next(base._train.epoch(0))
    losses = []
    for run in (base, extended):
        torch.manual_seed(0)  # dropout
        losses += run.train_batch(batch)

    assert torch.equal(*losses)
    torch.testing.assert_close(weight.grad, base.state.network.y_start.grad + 3)
    assert [extra.item() for extra in extended._extras] == pytest.approx([expected_extra])
    assert "extra_loss" in extended.one_epoch()
    assert "extra_loss" not in base.one_epoch()


def test_extra_loss_is_weighted_by_the_workers_share():
    """A worker with a quarter of the batch has a quarter of the weight."""
    run = training()
    batch = next(run._train.epoch(0))
    network = run.state.network
    output, _ = network(batch.images, network.start(batch.images, batch.context))
    output = output._replace(extra=torch.tensor(2.0))

    loss, loss_and_extra = run._losses(output, batch._replace(total=4 * len(batch.images)))

    assert (loss_and_extra - loss).item() == pytest.approx(0.5)


@pytest.mark.parametrize("model", [RUN.model, tiny_model("cnn")], ids=["layer norm", "batch norm"])
def test_the_best_validation_epoch_is_what_the_test_sees(model):
    run = training(model=model.model_dump(), train__epochs=6)
    scores = [line["selection_top1_accuracy"] for line in run.epochs()]

    outcome = run.finish()

    assert outcome["selected"]["epoch"] == scores.index(max(scores)) == run.state.best.epoch
    assert outcome["selected"]["top1_accuracy"] == max(scores)
    assert all(map(torch.equal, run.state.evaluated.state_dict().values(), run.state.best.weights.values()))
    # else the last epoch's statistics would be the selected ones anyway
    assert model == RUN.model or run.state.best.epoch < 5


def test_selection_on_test_trains_on_all_images_and_reports_the_best_test_epoch():
    run = training(train__selection="test")
    scores = [line["selection_top1_accuracy"] for line in run.epochs()]

    assert run.state.compute["images"] == 3 * 64
    assert run.finish()["metrics"]["top1_accuracy"] == pytest.approx(max(scores))


def test_evaluation_uses_the_average_and_leaves_training_alone():
    run = training(train__epochs=1)
    list(run.epochs())

    assert run.state.evaluated is not run.state.network
    assert run.state.network.training
    assert not all(map(torch.equal, run.state.evaluated.parameters(), run.state.network.parameters()))


def test_bfloat16_changes_the_numbers_a_little_and_keeps_float32_weights():
    exact, rounded = training(train__epochs=1), training(train__epochs=1, train__precision="bfloat16")
    (exact_line,), (rounded_line,) = exact.epochs(), rounded.epochs()

    assert exact_line["train_loss"] != rounded_line["train_loss"]
    assert exact_line["train_loss"] == pytest.approx(rounded_line["train_loss"], rel=0.05)
    assert {weight.dtype for weight in rounded.state.network.parameters()} == {torch.float32}


def test_a_schedule_by_update_changes_within_an_epoch():
    run = training(
        train__schedule="update", train__warmup=0.5, train__supervision_steps=2, train__halt_threshold=1
    )

    rates = at_each_step(run, lambda: run.state.optimizers[0].param_groups[0]["lr"])

    assert len(rates) == 3 * 4 * 2
    assert rates[:3] == pytest.approx([3e-4 / 12, 3e-4 * 2 / 12, 3e-4 * 3 / 12])
    assert rates[11] == 3e-4


def test_a_schedule_counted_in_batches_is_over_half_way_through():
    """Contradiction 004-3: two updates a batch."""
    run = training(
        train__schedule="batch",
        train__supervision_steps=2,
        train__halt_threshold=1,
        train__final_learning_rate=1e-5,
    )
    rates = [line["learning_rate"] for line in run.epochs()]

    assert rates[0] == 3e-4
    assert rates[2] == pytest.approx(1e-5)


@pytest.mark.parametrize("name", ["top1_accuracy", "macro_f1"], ids=["a mean over items", "none"])
def test_scores_by_depth_are_those_of_each_depths_answers(monkeypatch, name):
    """Whether they are summed up batch by batch, or of a few depths at a time."""
    monkeypatch.setattr(evaluate, "MAX_KEPT_DEPTHS", 3)
    run = training(train__epochs=1, train__evaluation_depths=8, train__score=name, train__batch_size=3)
    list(run.epochs())
    test = run._batches(run.data.test, shared=False)

    scores = evaluate.score_by_depth(run.task, run.state.evaluated, test)

    outputs, _ = predict(run.task, run.state.evaluated, test, range(1, 9))
    answers_by_depth = [evaluate.collect_answers(run.task, output, test) for output in outputs]
    assert scores == pytest.approx(
        {str(depth): METRICS[name](answers) for depth, answers in enumerate(answers_by_depth, 1)}
    )
    assert len({*scores.values()}) > 1


def test_a_worker_without_images_has_no_predictions():
    run = training()
    none = run._batches(run.data.test)
    none.rows, none.rank, none.world = none.rows[:1], 0, 2  # of one image, the first of two workers has none

    (outputs,), loss = predict(run.task, run.state.evaluated, none)

    assert (len(loss), outputs["logits"].shape) == (0, (0, 10))


def test_train_accuracy_is_that_of_the_images_without_augmentation():
    run = training(train__epochs=1, train__ema_decay=0)
    list(run.epochs())

    accuracy = run.finish()["metrics"]["train_top1_accuracy"]

    (outputs,), _ = predict(run.task, run.state.evaluated, run._train)
    right = outputs["logits"].argmax(-1).numpy() == run.data.train.labels[run.data.train.rows]
    assert accuracy == pytest.approx(100 * right.mean())


def test_weights_that_break_in_the_last_step_are_a_diverged_run():
    breaks = {"train__learning_rate": 1e30, "train__epochs": 1, "train__batch_size": 64}
    with pytest.raises(DivergenceError, match="the selection loss is nan in epoch 1, after update 1"):
        list(training(**breaks).epochs())

    unselected = training(**breaks, train__selection="last")
    list(unselected.epochs())
    with pytest.raises(DivergenceError, match="the logits of the test set are not finite"):
        unselected.finish()


@pytest.mark.parametrize(("detach", "updates"), [(True, 12), (False, 4)])
def test_an_update_follows_each_supervision_step_or_with_an_attached_carry_each_batch(detach, updates):
    """Four batches of 58 images, three steps each, twice; of a batch's first step alone the initial states
    have a gradient.
    """
    run = training(**FIXED | {"train__epochs": 2}, train__detach_carry=detach)

    traces = [(run.trace["first"], len(run.trace["losses"]), run.trace["every"]) for _ in run.epochs()]

    steps = {
        name: int(run.state.optimizers[0].state[weight]["step"])
        for name, weight in run.state.network.named_parameters()
    }
    assert (steps.pop("y_start"), steps.pop("z_start")) == (8, 8)
    assert {*steps.values(), run.state.updates} == {2 * updates}
    assert traces == [(1, updates, 1), (updates + 1, updates, 1)]
    assert run.state.compute["image_steps"] == 2 * 3 * 58
