"""A study as a bundle for strangers, and the check that the bundle says what its records say.

    bundle.py    what is where in a bundle, and reading one, folder or zip, without trusting it
    scrub.py     removing what is private from records: paths, hosts, users, secrets
    about.py     what a stranger reads first: README and CITATION.cff
    publish.py   `recstudy publish`: writes a bundle, the same bytes each time
    verify.py    `recstudy verify`: everything printed, computed again from the records
    compared.py  a published number beside one of runs that ../reproduce.py makes here
    command.py   the commands

Loads neither torch nor Ray, and no code of a bundle.
"""

from recstudy.publishing.bundle import Bundle

__all__ = ["Bundle"]
