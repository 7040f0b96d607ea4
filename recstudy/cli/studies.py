"""The command `recstudy studies`."""

from dataclasses import dataclass

from recstudy.base.terminal import say, say_table
from recstudy.study.shipped import question, shipped


@dataclass(frozen=True)
class StudiesCommand:
    """List the studies that come with recstudy, with their questions."""

    def run(self) -> int:
        say_table(("study", "question"), ((name, question(file)) for name, file in shipped().items()))
        say("Run one with: recstudy run NAME")
        return 0
