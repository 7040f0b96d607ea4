"""Train one run of the recursive models: from its settings to the outcome that `recstudy.programs.trial`
records.
"""

import logging
import time
from dataclasses import asdict
from pathlib import Path

import torch

from recstudy.data.cache import load
from recstudy.metrics.kept import archived
from recstudy.models.costs import cost, steps_a_batch
from recstudy.programs.base import Execution
from recstudy.programs.trial import record_user_files
from recstudy.programs.watchdog import hang_watchdog, paused_watchdog
from recstudy.records import Json, Results, RunFolder, append_line, write_json, write_whole
from recstudy.records.reading import dumped
from recstudy.train.evaluate import Diverged
from recstudy.train.initial import initial
from recstudy.train.loop import Training
from recstudy.train.parallel import wait_for_all
from recstudy.train.peaks import mfu, products, products_in_words
from recstudy.train.process import peak_memory_mb, reset_process
from recstudy.train.state import load_checkpoint, save_checkpoint, save_weights
from recstudy.train.usage import Usage

log = logging.getLogger(__name__)


def train_run(execution: Execution) -> Json:
    """Train a run, or the rest of it, and return its outcome; see `Program.run`."""
    trial, folder, writes = execution.trial, execution.records, execution.writes
    config = execution.settings.resolved_config
    device = reset_process(config)
    data = load(
        config.data,
        Path(trial.data),
        download=trial.download,
        hold_out=config.train.selection == "validation",
    )
    begin = initial(config, Results(trial.store or Path(trial.folder).parents[1]))
    # may compute features of every image
    training = Training(config, data, device, config.resources.compiles, begin)
    with hang_watchdog(60 * config.resources.hang_timeout_minutes, folder.hang_log(execution.group.rank)):
        load_checkpoint(training, folder.path)
        if writes:
            folder.keep_epochs(below=training.state.epoch)
            if lost := folder.lost_epochs(training.state.epoch):
                told = "the run goes on without these lines, and its curves lack them"
                log.warning(
                    "%s is damaged: %d of %d epochs are lost; %s",
                    folder.epochs,
                    lost,
                    training.state.epoch,
                    told,
                )
            record_user_files(trial, folder, resumes=training.state.epoch > 0)
        outcome: Json
        with Usage(device) as usage:
            try:
                outcome = (
                    {"status": "done", **training.finish()}
                    if _train(training, execution)
                    else {"status": "drained"}
                )
            except Diverged as error:
                outcome = {"status": "diverged", "error": str(error), "metrics": {}}
                if writes and training.trace.get("epoch") == training.state.epoch:
                    append_line(folder.losses, training.trace)  # of the epoch that it did not finish
        if writes and outcome["status"] != "drained":
            _keep(training, folder, outcome["status"])
            outcome["cost"] = {**spent(training, execution.group.world), **usage.values}
            outcome["provenance"] = {
                "workers": execution.group.world,
                "precision": products_in_words(config.train.precision, device),
                "threads": torch.get_num_threads(),
                "data_checksum": data.checksum,
                "data_notes": list(data.notes),
                "lost_epochs": folder.lost_epochs(training.state.epoch),
                "origin": "imported" if config.train.imported else "trained",
                "initial": dumped(begin.about) if begin else None,
            }
    wait_for_all()  # a worker that leaves early would end the group
    return outcome


def _train(training: Training, execution: Execution) -> bool:
    """Train the epochs that are left; False if the run was left before its end."""
    folder, writes = execution.records, execution.writes
    saved, epochs = time.monotonic(), training.config.train.epochs
    for line in training.epochs():
        if writes:
            append_line(folder.losses, training.trace)
            append_line(folder.epochs, line)
        leaving = execution.group.any_true(execution.leave())
        if execution.group.broadcast_flag(
            leaving or time.monotonic() - saved >= training.config.resources.checkpoint_seconds
        ):
            save_checkpoint(training, folder.path, writes)
            folder.send()
            saved = time.monotonic()
        with paused_watchdog():  # for a driver that may be busy, or stopped, and then goes on
            execution.report(line | {"epochs_done": training.state.epoch, "epochs": epochs})
        if leaving:
            return False
    return True


def _keep(training: Training, folder: RunFolder, status: str) -> None:
    """Write what an ended run keeps beside its result."""
    folder.wait_until_there()
    for name, content in training.kept.items():
        path = folder.path / name
        if path.suffix == ".json":
            write_json(path, content)
        else:
            write_whole(path, content if isinstance(content, bytes) else archived(content))
    if status == "done":
        # finish() has loaded the selected ones
        save_weights(training.state.evaluated.state_dict(), folder.weights)


def spent(training: Training, workers: int) -> Json:
    """Parameters and FLOPs as computed; seconds, throughput and memory as measured, over all attempts."""
    used, config, state = training.state.spent, training.config, training.state
    counted, seconds = cost(config), training.state.spent["seconds"]
    pflop = used["image_steps"] * counted.train_gflops / steps_a_batch(config) / 1e6
    card = torch.cuda.get_device_name(training.device) if training.device.type == "cuda" else ""
    share = mfu(pflop, used["train_seconds"] * workers, card, products(config.train.precision))
    return {
        **asdict(counted),
        **({} if share is None else {"mfu": share}),
        "train_pflop": pflop,
        "seconds": seconds,
        # a checkpoint of before it was kept has none
        "evaluation_seconds": used.get("evaluation_seconds", 0.0),
        "device_seconds": seconds * workers,
        "images_per_second": used["images"] / seconds if seconds else 0.0,
        "peak_memory_mb": peak_memory_mb(training.device),
        "epoch_seconds": used["train_seconds"] / state.epoch if state.epoch else 0.0,
        "supervision_steps_used": used["image_steps"] / used["images"] if used["images"] else 0.0,
    }
