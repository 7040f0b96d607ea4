"""Read and write results folders: record types, run and study folders, atomic writes, locks, object stores.

Every other package goes through this one for its records. It loads neither torch nor Ray.
"""

from recstudy.records.files import MARKER, Json, append_line, write_json, write_whole
from recstudy.records.locks import is_locked, locked
from recstudy.records.reading import append_record, read_json, read_log, read_record, write_record
from recstudy.records.results import Results
from recstudy.records.run_folder import RunFolder
from recstudy.records.schema import (
    FORMAT,
    Attempt,
    EpochLine,
    Failure,
    LateMetric,
    LossLine,
    Measured,
    Result,
    Stopped,
)
from recstudy.records.study_schema import PlanRecord, Run

__all__ = [
    "FORMAT",
    "MARKER",
    "Attempt",
    "EpochLine",
    "Failure",
    "Json",
    "LateMetric",
    "LossLine",
    "Measured",
    "PlanRecord",
    "Result",
    "Results",
    "Run",
    "RunFolder",
    "Stopped",
    "append_line",
    "append_record",
    "is_locked",
    "locked",
    "read_json",
    "read_log",
    "read_record",
    "write_json",
    "write_record",
    "write_whole",
]
