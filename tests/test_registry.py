import pytest

from recstudy.errors import ConfigError
from recstudy.plugins import Registry


def test_an_unknown_name_lists_the_known_and_the_nearest():
    families: Registry[type] = Registry("model family")
    families.add("vitrm")(int)
    families.add("resnet")(str)

    with pytest.raises(ConfigError, match=r"no model family 'vitmr': there are resnet, vitrm. Did you mean 'vitrm'\?"):
        families["vitmr"]


def test_a_name_is_registered_once():
    families: Registry[type] = Registry("model family")
    families.add("vitrm")(int)

    with pytest.raises(ConfigError, match="the model family 'vitrm' is registered twice"):
        families.add("vitrm")(str)
