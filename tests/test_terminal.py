import pytest

from recstudy.errors import ConfigError
from recstudy.terminal import duration, finish


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(45, "45 s"), (210, "3.5 min"), (7 * 3600 + 720, "7.2 h"), (36 * 3600, "36.0 h"), (3 * 86_400, "3.0 days")],
)
def test_durations_are_said_as_people_say_them(seconds, text):
    assert duration(seconds) == text


def test_bad_input_is_one_line_and_code_2(capsys):
    def work():
        raise ConfigError("no preset 'x'")

    with pytest.raises(SystemExit, match=r"^2$"):
        finish(work)

    assert capsys.readouterr().err == "ConfigError: no preset 'x'\n"
