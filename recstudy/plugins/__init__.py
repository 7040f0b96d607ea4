"""What recstudy is made of by name, its own and a user's: one kind of registry, and the user's modules in
every process.

A model family, data set, metric, table or figure kind, optimiser, loss or augmentation is registered by a
decorator, in recstudy, in a study's file, in a module beside it, or in an installed package (entry-point
group `recstudy.plugins`).

    driver   `current_files()` finds the modules that registered something, and all that they import from the study's folder;
             `kept()` keeps them as they are while the study runs; `sent_files()` copies them for the workers
    worker   `import_sent(...)` imports them from the copy, which Ray's `runtime_env` brings to the other nodes of a cluster
    reader   `reading(record, trust)` imports them on request, while a block runs; `loaded(files)` loads one file
"""

from recstudy.plugins.files import (
    UserFiles,
    caller,
    check_call,
    code_digests,
    file_digest,
    module_files,
    named,
    study_file,
    user_files_of,
)
from recstudy.plugins.loading import (
    current_files,
    import_all,
    import_sent,
    importing,
    kept,
    loaded,
    reading,
    refuse_while_loading,
    sent_files,
)
from recstudy.plugins.registry import Registry, absent, gathering

__all__ = [
    "Registry",
    "UserFiles",
    "absent",
    "caller",
    "check_call",
    "code_digests",
    "current_files",
    "file_digest",
    "gathering",
    "import_all",
    "import_sent",
    "importing",
    "kept",
    "loaded",
    "module_files",
    "named",
    "reading",
    "refuse_while_loading",
    "sent_files",
    "study_file",
    "user_files_of",
]
