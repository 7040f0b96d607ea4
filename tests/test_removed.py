import subprocess
import sys

import pytest

from recstudy.errors import ConfigError
from recstudy.removed import COMMANDS, OPTIONS, refuse_removed


@pytest.mark.parametrize("word", [*COMMANDS, *OPTIONS, *(f"{option}=value" for option in OPTIONS)])
def test_a_removed_command_or_option_names_its_replacement(word):
    with pytest.raises(ConfigError, match=r"was removed\. \w+"):
        refuse_removed([word] if word in COMMANDS else ["--preset", "quick", word])


@pytest.mark.parametrize("module", ["recstudy.command", "recstudy.cli"])
def test_both_command_lines_refuse_removed_options(module):
    option = next(iter(OPTIONS))
    argument = "" if module == "recstudy.command" else "recstudy.testing.tiny_study(), "
    code = f"import recstudy.testing, {module} as cli; cli.main({argument}['{option}'])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 2, process.stderr
    assert "was removed" in process.stderr
