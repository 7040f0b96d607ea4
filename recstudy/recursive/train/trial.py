"""Train one run of a recursive model and return the outcome that `recstudy.programs.trial` records."""

import logging
import time
from dataclasses import asdict
from pathlib import Path

import torch

from recstudy.programs.attempt import Trial
from recstudy.programs.trial import record_user_files
from recstudy.programs.watchdog import hang_watchdog, paused_watchdog
from recstudy.records import Json, Results, RunFolder, append_line, write_json, write_whole
from recstudy.records.reading import dumped
from recstudy.recursive.data.cache import load
from recstudy.recursive.metrics.kept import archived
from recstudy.recursive.models.costs import cost, train_pflop
from recstudy.recursive.models.networks.weight_files import weight_bytes
from recstudy.recursive.train.evaluate import DivergenceError
from recstudy.recursive.train.initial import initial
from recstudy.recursive.train.loop import Training
from recstudy.recursive.train.parallel import wait_for_all
from recstudy.recursive.train.peaks import mfu, products, products_in_words
from recstudy.recursive.train.process import peak_memory_mb, reset_process
from recstudy.recursive.train.state import load_checkpoint, save_checkpoint
from recstudy.recursive.train.usage import Usage

log = logging.getLogger(__name__)


def train_run(trial: Trial) -> Json:
    """Train a run, or resume it, and return its outcome (see `Program.run`)."""
    folder, writes, config = trial.records, trial.writes, trial.settings.resolved_config
    device = reset_process(config)
    data = load(
        config.data,
        Path(trial.data),
        download=trial.download,
        hold_out=config.train.selection == "validation",
    )
    begin = initial(config, Results(trial.store or Path(trial.folder).parents[1]))
    # This may compute features of every image, which takes long, so the watchdog starts after it.
    training = Training(config, data, device, config.resources.compiles, begin)
    with hang_watchdog(60 * config.resources.hang_timeout_minutes, folder.hang_log(trial.group.rank)):
        load_checkpoint(training, folder.path)
        if writes:
            folder.keep_epochs(end_epoch=training.state.epoch)
            if lost_epochs := folder.lost_epochs(training.state.epoch):
                log.warning(
                    "%s is damaged: %d of %d epochs are lost. The run continues, and its curves lack them",
                    folder.epochs,
                    lost_epochs,
                    training.state.epoch,
                )
            record_user_files(trial, resumes=training.state.epoch > 0)
        outcome: Json
        with Usage(device) as usage:
            try:
                outcome = (
                    {"status": "done", **training.finish()}
                    if _train(training, trial)
                    else {"status": "drained"}
                )
            except DivergenceError as error:
                outcome = {"status": "diverged", "error": str(error), "metrics": {}}
                if writes and training.trace.get("epoch") == training.state.epoch:
                    append_line(folder.losses, training.trace)  # losses of the unfinished epoch
        if writes and outcome["status"] != "drained":
            _keep(training, folder, outcome["status"])
            outcome["cost"] = {**compute_cost(training, trial.group.world), **usage.values}
            outcome["provenance"] = {
                "workers": trial.group.world,
                "precision": products_in_words(config.train.precision, device),
                "threads": torch.get_num_threads(),
                "data_checksum": data.checksum,
                "data_notes": list(data.notes),
                "lost_epochs": folder.lost_epochs(training.state.epoch),
                "origin": "imported" if config.train.imported else "trained",
                "initial": dumped(begin.about) if begin else None,
            }
    with paused_watchdog():  # the first worker evaluates, which may take hours
        wait_for_all()  # a worker that returns early would end the group
    return outcome


def _train(training: Training, trial: Trial) -> bool:
    """Train the remaining epochs. Return False if the run was asked to leave before its end."""
    folder, writes = trial.records, trial.writes
    saved, epochs = time.monotonic(), training.config.train.epochs
    for line in training.epochs():
        if writes:
            append_line(folder.losses, training.trace)
            append_line(folder.epochs, line)
        is_leaving = trial.group.any_true(trial.leave())
        if trial.group.broadcast_flag(
            is_leaving or time.monotonic() - saved >= training.config.resources.checkpoint_seconds
        ):
            save_checkpoint(training, folder.path, writes)
            folder.send()
            saved = time.monotonic()
        with paused_watchdog():  # the driver may be busy or suspended for a long time
            trial.report(line | {"epochs_done": training.state.epoch, "epochs": epochs})
        if is_leaving:
            return False
    return True


def _keep(training: Training, folder: RunFolder, status: str) -> None:
    """Write the files of an ended run, except its result."""
    folder.wait_until_there()
    for name, content in training.files.items():
        path = folder.path / name
        if path.suffix == ".json":
            write_json(path, content)
        else:
            write_whole(path, content if isinstance(content, bytes) else archived(content))
    if status == "done":
        # `finish` has loaded the selected weights.
        write_whole(folder.weights, weight_bytes(training.state.evaluated.state_dict()))


def compute_cost(training: Training, workers: int) -> Json:
    """Return the cost of a run: computed parameters and FLOPs, and measured seconds and memory.

    Args:
        training: The run's training, with the compute of all its attempts.
        workers: The number of workers.
    """
    config, state = training.config, training.state
    compute, seconds = state.compute, state.compute["seconds"]
    pflop = train_pflop(config, compute["image_steps"])
    card = torch.cuda.get_device_name(training.device) if training.device.type == "cuda" else ""
    share = mfu(pflop, compute["train_seconds"] * workers, card, products(config.train.precision))
    return {
        **asdict(cost(config)),
        **({} if share is None else {"mfu": share}),
        "train_pflop": pflop,
        "seconds": seconds,
        # Checkpoints of early versions lack this value.
        "evaluation_seconds": compute.get("evaluation_seconds", 0.0),
        "device_seconds": seconds * workers,
        "images_per_second": compute["images"] / seconds if seconds else 0.0,
        "peak_memory_mb": peak_memory_mb(training.device),
        "epoch_seconds": compute["train_seconds"] / state.epoch if state.epoch else 0.0,
        "supervision_steps_used": compute["image_steps"] / compute["images"] if compute["images"] else 0.0,
    }
