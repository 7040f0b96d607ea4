"""Publish a study as a bundle for other researchers, and verify bundles.

    bundle.py       the layout of a bundle, and the reader of untrusted bundles (folder or zip)
    scrub.py        removes paths, hosts, users and secrets from records
    about.py        writes README.md and CITATION.cff
    publish.py      `recstudy publish`: writes a bundle, always with the same bytes
    verify.py       `recstudy verify`: computes every printed number again from the records
    checks.py       its checks of files, settings, variants, answers, records and dates
    differences.py  its check of the report
    compared.py     compares published numbers with those of local runs, for `recstudy reproduce`

This package loads neither torch nor Ray, and runs no code of a bundle.
"""

from recstudy.publishing.bundle import Bundle

__all__ = ["Bundle"]
