"""Settings of runs, models and data that do not fit together are refused in one line when they are read."""

import re
from functools import partial
from pathlib import Path

import pytest
import yaml
from refusals import pattern_of

from recstudy import recursive
from recstudy.base.errors import ConfigError
from recstudy.programs.settings import configure
from recstudy.recursive import RunConfig

TEXT = Path(__file__).with_name("refused.txt").read_text()
BASES = {
    name: configure(RunConfig, yaml.safe_load(values))
    for name, values in re.findall(r"^(\w+): (\{.*)$", TEXT, re.MULTILINE)
}
CASES = re.findall(r"^\$ (\w+) (.*)\n(.*)$", TEXT, re.MULTILINE)


@pytest.mark.parametrize(("name", "values", "message"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES])
def test_settings_that_do_not_fit_are_refused_in_one_line(name, values, message):
    read = BASES[name].with_changes if name in BASES else partial(configure, getattr(recursive, name))
    with pytest.raises(ConfigError, match=f"^{pattern_of(message)}$"):
        read(yaml.safe_load(values))
