"""Results for strangers: a study as a bundle that stands by itself, and the check that it says what its records say.

    bundle.py    what lies where in a bundle, and reading one, folder or zip, without trusting it
    scrub.py     taking out of records what is nobody's business: paths, hosts, users, secrets
    publish.py   `recstudy publish`: writes a bundle, the same bytes each time
    about.py     what a stranger reads first: README and CITATION.cff
    verify.py    `recstudy verify`: everything printed, recomputed from the records
    checks.py    what verify asks of the records
    compared.py  a published number beside one of runs that ../reproduce.py makes here
    command.py   the commands

Loads neither torch nor Ray, and no code that a bundle brings.
"""

from recstudy.publishing.bundle import Bundle

__all__ = ["Bundle"]
