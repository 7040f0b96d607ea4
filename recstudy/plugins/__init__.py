"""Register parts of recstudy and of users by name, and make a user's modules importable in every process.

A decorator registers a model family, data set, metric, table or figure kind, optimizer, loss or augmentation.
It may be used in recstudy, in a study's file, in a module in the same folder, or in an installed package
(entry-point group `recstudy.plugins`).

    driver   `current_files()` finds the modules that registered something and their imports from the folder;
             `frozen_files()` keeps their content while the study runs; `sent_files()` copies them for workers
    worker   `import_sent(...)` imports them from the copy; Ray's `runtime_env` transfers it to other nodes
    reader   `reading(record, trust)` imports them for a block if the user trusts them;
             `loaded(files)` loads one file
"""

from recstudy.plugins.files import (
    UserFiles,
    caller,
    check_call,
    code_digests,
    file_digest,
    import_object,
    module_files,
    outside_files,
    study_file,
    user_files_of,
)
from recstudy.plugins.loading import (
    current_files,
    frozen_files,
    import_all,
    import_sent,
    importing,
    loaded,
    reading,
    refuse_while_loading,
    sent_files,
)
from recstudy.plugins.registry import Registry, gathering, missing_reasons
from recstudy.plugins.syntax import computes_imports

__all__ = [
    "Registry",
    "UserFiles",
    "caller",
    "check_call",
    "code_digests",
    "computes_imports",
    "current_files",
    "file_digest",
    "frozen_files",
    "gathering",
    "import_all",
    "import_object",
    "import_sent",
    "importing",
    "loaded",
    "missing_reasons",
    "module_files",
    "outside_files",
    "reading",
    "refuse_while_loading",
    "sent_files",
    "study_file",
    "user_files_of",
]
