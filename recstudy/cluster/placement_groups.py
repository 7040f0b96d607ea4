"""Room on the cluster that nobody uses any more.

Ray Train's controller reserves a placement group for its workers. Where Tune ends the process that a controller belongs to,
its workers end first, and a controller that lives a moment longer reserves another one, to start them again. Nobody removes
that one (Ray 2.60).
"""

import time
from collections.abc import Iterator
from typing import Any

import ray
from ray import tune
from ray.core.generated.gcs_pb2 import PlacementGroupTableData
from ray.util.placement_group import PlacementGroup, remove_placement_group

LOOK_S = 2.0  # between two looks; each takes a millisecond


class Groups(tune.Callback):
    """Gives back the placement groups of this study whose makers have ended."""

    def __init__(self) -> None:
        self._looked = 0.0

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            for group in _left():
                remove_placement_group(group)


def _left() -> Iterator[PlacementGroup]:
    """What Ray's own table of groups does not show, their makers, stands in the records that it is made of."""
    state, job = ray._private.state.state, ray.get_runtime_context().get_job_id()
    for packed in state._connect_and_get_accessor().get_placement_group_table():
        group = PlacementGroupTableData.FromString(packed)
        ours = group.creator_job_id.hex() == job and group.state != PlacementGroupTableData.REMOVED
        maker = ray.ActorID(group.creator_actor_id)
        if ours and not maker.is_nil() and state.actor_table(maker.hex()).get("State") == "DEAD":
            yield PlacementGroup(ray.PlacementGroupID(group.placement_group_id))
