import os
import signal
import time

import pytest
import ray

from recstudy.cluster.worker import Leave, Telling, throttled

EPOCHS = 20_000


def test_ten_thousand_epochs_a_second_are_a_few_reports_with_the_last():
    reported = []
    report = throttled(reported.append)
    started = time.perf_counter()

    for epoch in range(EPOCHS):
        report({"epoch": epoch, "epochs_done": epoch + 1, "epochs": EPOCHS})

    seconds = time.perf_counter() - started
    assert seconds < EPOCHS / 10_000
    assert 2 <= len(reported) <= 2 + seconds / 0.1
    assert [reported[0]["epoch"], reported[-1]["epoch"]] == [0, EPOCHS - 1]


def test_slow_epochs_are_all_reported():
    reported = []
    report = throttled(reported.append)
    for epoch in range(3):
        report({"epoch": epoch, "epochs_done": epoch + 1, "epochs": 4})
        time.sleep(0.11)

    assert [line["epoch"] for line in reported] == [0, 1, 2]


@ray.remote(num_cpus=1)
class Worker:
    """A process on some node that asks as a run does."""

    def __init__(self) -> None:
        self.leave = Leave()

    def where(self) -> str:
        return ray.get_runtime_context().get_node_id()

    def asks(self) -> bool:
        return self.leave()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_a_worker_sees_that_its_node_is_drained_and_the_others_do_not(cluster):
    cluster.add_node(num_cpus=1)
    workers = [Worker.remote() for _ in range(2)]
    nodes = ray.get([worker.where.remote() for worker in workers])
    assert len(set(nodes)) == 2
    assert ray.get([worker.asks.remote() for worker in workers]) == [False, False]
    head = ray.get_runtime_context().get_node_id()
    leaving = next(at for at, node in enumerate(nodes) if node != head)

    from ray.core.generated import autoscaler_pb2

    preempted = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    deadline = int(time.time() * 1000) + 120_000
    accepted, _ = ray._private.worker.global_worker.gcs_client.drain_node(nodes[leaving], preempted, "spot", deadline)
    assert accepted

    time.sleep(5.1)  # an answer counts for 5 s
    answers = ray.get([worker.asks.remote() for worker in workers])
    assert [at for at, answer in enumerate(answers) if answer] == [leaving]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_the_workers_of_a_driver_that_is_asked_to_end_hear_of_it_on_each_node(cluster):
    cluster.add_node(num_cpus=1)
    workers, leaving = [Worker.remote() for _ in range(2)], Telling()
    assert len(set(ray.get([worker.where.remote() for worker in workers]))) == 2
    told = []

    def sweep() -> None:
        with leaving.on_sigterm():
            told.append(leaving.tell())
            os.kill(os.getpid(), signal.SIGTERM)
            told.extend([leaving.tell(), leaving.tell()])
            told.extend(ray.get([worker.asks.remote() for worker in workers]))
            os.kill(os.getpid(), signal.SIGTERM)  # once more is at once
            told.append("went on")

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        sweep()

    assert told == [False, True, False, True, True]
