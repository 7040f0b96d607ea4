"""Write docs/api/json.md from the models in recstudy/report/documents.py.

python docs/tools/json_page.py            rewrite the page (make readme)
python docs/tools/json_page.py --check    only check that it is up to date (make check)
"""

import re
import sys
from inspect import getdoc
from pathlib import Path

from generated import write_or_check

from recstudy.report import documents

PAGE = Path(__file__).parents[2] / "docs" / "api" / "json.md"
MODELS = r"\w+(Entry|Status|Run|Number)\b|\b(Finding|Contradiction)\b"
INTRO = """\
# JSON of the commands

With `--json`, standard output is exactly one JSON document. Progress and warnings go to standard error.

```bash
python my_study.py --no-ray --until decided --json --exit-by-verdict > decision.json
recstudy judge runs.csv --claims claims.yaml --json
recstudy report results --json
recstudy status results --json
recstudy explain results:1:1 results/studies/my_study/default --json
recstudy audit results --json
recstudy verify my_study.zip --json
recstudy reproduce my_study.zip --json
recstudy fields --json
python my_study.py --dry-run --json
```

- **Numbers** have full precision and are the numbers of the page. Keys of questions are those of the CSV
  files beside the tables. A missing number is `null`, and so is an infinite bound.
- **Errors** have no document: standard output is empty, standard error has one line, and the exit code is 2.
  If some of several studies are damaged, the document has the others. If runs failed, the document is
  complete, and the exit code names the reason.
- **Versions**: `schema_version` is 1. A new key does not change it. Another meaning, another type or a
  removed key raises it. `recstudy` is the version of the package.
- **Exit codes** tell the verdict with `--exit-by-verdict`: [codes](../errors.md#exit-codes).

`recstudy skill` prints a SKILL.md, from which a coding agent learns to use these documents.
"""


def page() -> str:
    """Return the text of the page: a table for each document, then for each part of one."""
    models = [
        model
        for model in vars(documents).values()
        if isinstance(model, type) and issubclass(model, documents.JsonPart) and model.model_fields
    ]
    kinds = {"Documents": True, "Parts of documents": False}
    lines = [INTRO]
    for title, is_document in kinds.items():
        lines += [f"## {title}", ""]
        for model in models:
            if issubclass(model, documents.Document) == is_document and model is not documents.Document:
                lines += section(model)
    return "\n".join(lines).rstrip() + "\n"


def section(model: type[documents.JsonPart]) -> list[str]:
    """Return the lines of a model: its summary, and a table of its keys."""
    text = " ".join((getdoc(model) or "").split())
    lines = [f"### {model.__name__}", "", text, "", "| key | type | meaning |", "| --- | --- | --- |"]
    for name, field in model.model_fields.items():
        if name not in documents.Document.model_fields:
            meaning = " ".join((field.description or "").split()).replace("|", r"\|")
            lines.append(f"| `{name}` | {type_words(field.annotation)} | {meaning} |")
    return [*lines, ""]


def type_words(annotation: object) -> str:
    """Return a type in words, with links to the models that it names."""
    if annotation in (documents.Verdict, documents.Kind):
        return " or ".join(repr(str(value)) for value in annotation)
    text = annotation.__name__ if type(annotation) is type else str(annotation)
    text = re.sub(r"typing\.|recstudy(\.\w+)+\.|<class '|'>", "", text)
    text = re.sub(r"Literal\[(.*?)\]", lambda match: match[1].replace(", ", " or "), text)
    for old, new in {"dict[str, Any]": "object", "str": "text", "None": "null", " |": " or"}.items():
        text = text.replace(old, new)
    return re.sub(MODELS, link, text)


def link(match: re.Match[str]) -> str:
    return f"[{match[0]}](#{match[0].lower()})"


if __name__ == "__main__":
    sys.exit(write_or_check({PAGE: page()}))
