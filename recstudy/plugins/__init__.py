"""What recstudy is made of by name, its own and a user's: one kind of registry, and the user's modules in every process.

A model family, data set, metric, table or figure kind, optimiser, loss or augmentation is registered by a decorator, in
recstudy, in a study's file, in a module beside it, or in an installed package (entry-point group `recstudy.plugins`).

    driver   `bundle()` finds the modules that registered something, and all that they import from beside the study file; it is
             `kept()` as it is while the study runs
    worker   `use(bundle)` imports them, from where they lie or from a copy
    reader   `reading(record, trust)` imports them on request, for as long as a block runs
"""

from recstudy.plugins.bundle import Bundle, bundle_of, file_bundle, named, study_file
from recstudy.plugins.loading import bundle, import_all, importing, kept, reading, refuse_while_loading, use
from recstudy.plugins.registry import Registry, absent, gathering

__all__ = [
    "Bundle",
    "Registry",
    "absent",
    "bundle",
    "bundle_of",
    "file_bundle",
    "gathering",
    "import_all",
    "importing",
    "kept",
    "named",
    "reading",
    "refuse_while_loading",
    "study_file",
    "use",
]
