"""Which page an address asks for."""

from recstudy.board.markup import Address, Page, PagePart, describe_problem
from recstudy.board.overview import overview
from recstudy.board.poller import NO_PLAN
from recstudy.board.run import run_page
from recstudy.board.runlist import runs_page
from recstudy.board.sources import Sources
from recstudy.board.study import study_page
from recstudy.errors import ConfigError
from recstudy.report.study_records import standing


def page_at(sources: Sources, address: Address) -> Page:
    """Return the page at this address.

    Raises:
        ConfigError: there is none. The message names the thing that is missing.
    """
    match address.path:
        case ():
            return overview(sources, address)
        case ("study", name, preset):
            page, study = study_page, (name, preset)
        case ("runs", name, preset):
            page, study = runs_page, (name, preset)
        case ("run", run_id):
            page, study = run_page, next(iter(sources.poller.studies_of(run_id)), ("", ""))
        case _:
            raise ConfigError(
                f"no page at /{'/'.join(address.path)}: there are /, /study/NAME/PRESET, /runs/NAME/PRESET and /run/ID"
            )
    planned = sources.poller.studies.get(study)
    with standing(planned.plan if planned else NO_PLAN, sources.trust):
        return page(sources, address)


def page_or_problem(sources: Sources, address: Address) -> Page:
    """Return the page at this address, or one that says in words why there is none."""
    try:
        return page_at(sources, address)
    except (Exception, SystemExit) as error:
        return Page("Nothing to show", [PagePart("head", "", f"<h1>Nothing to show</h1>{describe_problem(error)}")])
