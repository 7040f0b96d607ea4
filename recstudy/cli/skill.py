"""The command `recstudy skill`."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SkillCommand:
    """Print a SKILL.md, from which a coding agent learns to decide by claims.

    Example: recstudy skill > SKILL.md
    """

    def run(self) -> int:
        print((Path(__file__).parent / "skill.md").read_text(encoding="utf-8"), end="")
        return 0
