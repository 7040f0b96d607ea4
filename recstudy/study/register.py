"""`--register`: all that a study states before it runs, as one small file beside the study's, to be committed or deposited.

Each run of the study compares with it, and the plan keeps it, so that its page can say what has changed since.
"""

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import yaml

from recstudy.analysis.registration import differences, registrable
from recstudy.errors import ConfigError
from recstudy.plugins import study_file
from recstudy.records import write_whole
from recstudy.records.reading import dumped, record_of
from recstudy.records.study_schema import PlanRecord, Registered
from recstudy.report.names import plural
from recstudy.study.repository import code_version

HEAD = "# What {} states before it runs; written by `recstudy register`. Commit it, or deposit it where it gets a date.\n"


def register(plan: PlanRecord) -> str:
    """Write the file, and say so; one that states the same stays as it is.

    Raises:
        ConfigError: there is no file of a study, or what was registered before is something else.
    """
    file = registration_file(plan.folder)
    if file is None:
        raise ConfigError("what is typed at a prompt cannot be registered: write the study into a file")
    before = registered(plan)
    if before is None:
        code = code_version()
        by = ", ".join(filter(None, [version("recstudy"), code.recstudy or code.commit or ""]))
        stated = registrable(plan, datetime.now(UTC).isoformat(timespec="seconds"), by)
        write_whole(
            file, HEAD.format(plan.study) + yaml.safe_dump(dumped(stated), sort_keys=False, allow_unicode=True, width=100)
        )
        counts = {"claim": stated.claims, "margin": stated.margins, "deviation": stated.deviations}
        return f"{file}: {', '.join(plural(len(lines), kind) for kind, lines in counts.items())}"
    if changed := differences(plan, before):
        raise ConfigError(
            f"{file} was registered on {before.date} and stays: {'; '.join(changed)}. Run the study as it was registered, or "
            "remove the file to register it anew"
        )
    return f"{file}: registered on {before.date}, unchanged"


def registered(plan: PlanRecord) -> Registered | None:
    """What was registered of this preset beside the study's file; None where nothing was.

    Raises:
        ConfigError: the file is damaged.
    """
    file = registration_file(plan.folder)
    try:
        return record_of(Registered, yaml.safe_load(file.read_text(encoding="utf-8"))) if file and file.exists() else None
    except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
        said = " ".join(str(error).split())
        raise ConfigError(f"{file} is damaged: {said}. Take it from where it was committed, or remove it") from None


def registration_file(preset: str) -> Path | None:
    """Where it lies; None at a prompt and in a notebook."""
    study = study_file()
    return None if study is None else study.path.with_name(f"{study.path.stem}.{preset}.registered.yaml")
