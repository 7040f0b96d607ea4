"""README's section "Add to it" shows the folder that the tests beside this one run."""

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_it_shows_the_files_as_they_are():
    section = (HERE.parents[1] / "README.md").read_text().partition("## Add to it")[2]
    shown = re.findall(r"```python\n(.*?)```", section, re.DOTALL)

    assert shown == [(HERE / "mixer" / name).read_text() for name in ("mixer_study.py", "mixer_network.py")]
