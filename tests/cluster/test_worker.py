import os
import signal
import subprocess
import time
from types import SimpleNamespace

import pytest
import ray
from ray_nodes import RAY

from recstudy.cluster import worker
from recstudy.cluster.messages import Leave, LeaveRequests, Messages
from recstudy.cluster.worker import throttled
from recstudy.programs.attempt import Group, Trial
from recstudy.programs.trial import WorkerFailed, _record_failure


def test_epochs_are_reported_ten_times_a_second_at_most_and_the_last_always(monkeypatch):
    clock_time, reported = [0.0], []
    monkeypatch.setattr(worker.time, "monotonic", lambda: clock_time[0])
    report = throttled(reported.append, Group())
    for epoch in range(21):  # 16 a second, and at last a slow one
        report({"epoch": epoch, "epochs_done": epoch + 1, "epochs": 22})
        clock_time[0] += 1 / 16
    report({"epoch": 21, "epochs_done": 22, "epochs": 22})

    assert [line["epoch"] for line in reported] == [*range(0, 21, 2), 21]


def test_a_reported_value_named_done_does_not_end_the_trial(monkeypatch):
    monkeypatch.setenv("TUNE_FUNCTION_THREAD_TIMEOUT_S", "")
    monkeypatch.setattr(worker, "Leave", lambda _: lambda: False)
    monkeypatch.setattr(worker, "execute", lambda trial, report, leave: report({"done": 0.7}))
    monkeypatch.setattr(worker.tune, "report", lines := [].append)
    worker.inline(None, None)
    assert lines.__self__ == [{"done": False}]


@pytest.mark.parametrize(
    ("error", "lines"), [(KeyError("x"), ["failed"]), (RuntimeError("gloo: Connection closed by peer"), [])]
)
def test_a_failure_of_a_group_is_final_unless_a_worker_was_lost(monkeypatch, error, lines):
    group, messages, statuses = Group(), Messages(), []
    group.world = 2
    messages.add_line = SimpleNamespace(remote=lambda attempt, line: statuses.append(line["status"]))
    monkeypatch.setattr(worker.cloudpickle, "loads", lambda _: messages)
    monkeypatch.setattr(worker, "Leave", lambda _: lambda: False)
    monkeypatch.setattr(worker, "worker_group", lambda _: group)
    monkeypatch.setattr(worker.ray, "get", lambda answer: answer)
    monkeypatch.setattr(worker, "execute", lambda trial, *_: _record_failure(error, trial))

    with pytest.raises(WorkerFailed if lines else RuntimeError):
        worker.work_in_group(
            {"trial": Trial({"program": "?"}, "", "", "", group=group), "load": b"", "attempt": ""}
        )
    assert statuses == lines


@ray.remote(num_cpus=1)
class Worker:
    """A process on some node that asks as a run does."""

    def __init__(self, requests: list) -> None:
        self.leave = Leave(requests[0])

    def node_id(self) -> str:
        return ray.get_runtime_context().get_node_id()

    def asks(self) -> bool:
        self.leave._request_time = 0.0  # an answer counts for two seconds
        return self.leave()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_workers_hear_that_their_node_or_all_runs_are_to_leave(cluster, monkeypatch):
    monkeypatch.setattr("recstudy.cluster.messages.LOOK_S", 0)
    cluster.add_node(num_cpus=1)
    draining = LeaveRequests()
    workers = [Worker.remote([draining.messages]) for _ in range(2)]
    nodes = ray.get([worker.node_id.remote() for worker in workers])
    assert len(set(nodes)) == 2

    def ask_workers() -> list[bool]:
        return ray.get([worker.asks.remote() for worker in workers])

    assert ask_workers() == [False, False]

    head = ray.get_runtime_context().get_node_id()
    drained = next(index for index, node in enumerate(nodes) if node != head)
    drain = [
        RAY,
        "drain-node",
        f"--node-id={nodes[drained]}",
        f"--address={ray.get_runtime_context().gcs_address}",
    ]
    drain += [
        "--reason=DRAIN_NODE_REASON_PREEMPTION",
        "--reason-message=spot",
        "--deadline-remaining-seconds=120",
    ]
    subprocess.run(drain, check=True, capture_output=True)
    for _ in range(100):  # the head tells of it a little later, and a busy one not within three seconds
        draining.leave_draining_nodes()
        if any(ask_workers()):
            break
        time.sleep(0.3)
    assert [index for index, answer in enumerate(ask_workers()) if answer] == [drained]

    leave_orders = []

    def sweep() -> None:
        with draining.on_sigterm():
            leave_orders.append(draining.tell())
            os.kill(os.getpid(), signal.SIGTERM)
            leave_orders.extend([draining.tell(), draining.tell()])
            leave_orders.extend(ask_workers())
            os.kill(os.getpid(), signal.SIGTERM)  # once more is at once
            leave_orders.append("went on")

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        sweep()

    assert leave_orders == [False, True, False, True, True]
