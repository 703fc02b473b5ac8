"""The settings of a mount from one source: the command line, or a configuration file (TOML).

A file's keys are the long options of `ffrfs mount`, with `_` for `-`, and `packs`,
`mountpoint` and `options` (the values of `-o`). Options that say how the command runs, and not
what it mounts, have no key. Relative names in a file begin in the file's own directory.
request.py merges the two sources to one request.

No state: safe from any thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ffrfs.errors import OptionError, parse_reason
from ffrfs.mount.config.settings import SETTINGS, Fields, parse_setting
from ffrfs.mount.kernel.mountpoint import canonical
from ffrfs.mount.kernel.options import escape, may_be_secret, parse_words, split_options
from ffrfs.remote.url import is_url, parse_url

_FILE_SIZE_MAX = 1 << 20
_SOURCE_SIZE_MAX = 4095  # the kernel takes a page, with the zero byte at its end
# Long options that are short forms of a word of -o.
OPTION_KEYS: dict[str, tuple[type, ...]] = {"on_conflict": (str,), "allow_missing": (bool,)}
_LISTS = ("packs", "options")
KEYS = frozenset(
    {*_LISTS, "mountpoint", *OPTION_KEYS, *(name for name in SETTINGS if name != "config")}
)

_PACK = re.compile(r"(?:[^:\\]|\\.|\\$)*", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of one source; a field is empty, or None, if the source does not set it."""

    packs: tuple[str, ...] = ()  # absolute, or URLs without their queries
    signed: dict[str, str] = field(default_factory=dict, repr=False)  # by such a URL, the whole one
    spec: str | None = None  # PACK1:PACK2, if the packs were named so
    mountpoint: str | None = None  # canonical
    words: tuple[str, ...] = ()  # the words of -o that are not settings
    settings: Fields = field(default_factory=dict)


def make_config(
    *,
    packs: Iterable[str] = (),
    mountpoint: str | None = None,
    options: Iterable[str] = (),
    settings: Fields,
    folder: str = "",
) -> Config:
    """Return the Config of the values of -o (`options`) and of `settings`, which win over them.

    Relative names begin in `folder` ("": the working directory). Raises OptionError.
    """
    found: list[str] = []
    arguments = list(packs)
    for argument in arguments:
        found += split_packs(argument, folder)
    urls = [parse_url(pack) for pack in found if is_url(pack)]
    signed = {url.shown: url.text for url in urls if url.query}
    for url in urls:
        if signed.get(url.shown, url.text) != url.text:
            raise OptionError(
                f"{url.shown}: is named twice, with different texts after the ?; one mount cannot "
                "tell them apart, so mount them at two places"
            )
    words, fields = [], Fields()
    for word in split_options(options):
        name, equals, text = word.partition("=")
        if name in SETTINGS:
            fields |= _setting_of_word(word, name, text if equals else None, folder)
        else:
            words.append(word)
    return Config(
        packs=tuple(_absolute(pack, folder) for pack in found),
        signed=signed,
        spec=_spec(arguments[0], found)
        if len(arguments) == 1 < len(found) and not signed
        else None,
        mountpoint=_mountpoint(mountpoint, folder) if mountpoint else None,
        words=tuple(words),
        settings=fields | settings,
    )


def split_packs(argument: str, folder: str = "") -> list[str]:
    r"""Split PACK1:PACK2, which mount(8) takes as one word; `\:` is a colon of a name.

    If a file of the whole name exists, or it is a URL, it is one pack. Raises OptionError.
    """
    if not argument:  # else the working directory
        raise OptionError("the name of a pack is empty")
    if ":" not in argument or is_url(argument) or os.path.lexists(os.path.join(folder, argument)):
        return [argument]
    packs = [_ESCAPE.sub(r"\1", pack) for pack in _split_at_colons(argument)]
    if not all(packs):
        raise OptionError(f"{argument}: a pack without a name, before or after a colon")
    return packs


def _split_at_colons(text: str) -> list[str]:
    parts, begin = [], 0
    while True:
        match = _PACK.match(text, begin)
        assert match is not None
        parts.append(match[0])
        if match.end() == len(text):
            return parts
        begin = match.end() + 1


def _absolute(pack: str, folder: str) -> str:
    if is_url(pack):
        return parse_url(pack).shown
    return os.path.realpath(os.path.join(folder, pack))


def _mountpoint(name: str, folder: str) -> str:
    return canonical(name if is_url(name) else os.path.join(folder, name))


def _spec(argument: str, packs: list[str]) -> str | None:
    """Return the source for /proc/mounts: the text of fstab, so that `mount -a` finds it there."""
    if not all(os.path.isabs(pack) or is_url(pack) for pack in packs):
        absolute = (pack if is_url(pack) else os.path.abspath(pack) for pack in packs)
        argument = ":".join(re.sub(r"([\\:])", r"\\\1", pack) for pack in absolute)
    return argument if len(os.fsencode(argument)) <= _SOURCE_SIZE_MAX else None


def _setting_of_word(word: str, name: str, text: str | None, folder: str) -> Fields:
    if SETTINGS[name].is_flag != (text is None):
        needs = "takes no value" if SETTINGS[name].is_flag else "needs a value"
        raise OptionError(f"mount option {word!r} {needs}")
    try:
        return parse_setting(name, text or "", folder=folder)
    except OptionError as error:
        shown = name if may_be_secret(word) else word
        raise OptionError(f"mount option {shown!r} {error}") from None


def read_config(path: str) -> Config:
    """Read a configuration file.

    Raises OptionError, which names file and key, and OSError if it cannot be read.
    """
    import tomllib  # here: most mounts have no file

    try:
        with open(path, "rb") as file:
            text = file.read(_FILE_SIZE_MAX + 1)
        if len(text) > _FILE_SIZE_MAX:
            raise OptionError(f"{path}: over {_FILE_SIZE_MAX >> 20} MiB: not a configuration file")
        table = tomllib.loads(text.decode())
        return _config(table, os.path.dirname(os.path.abspath(path)))
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from None
    except UnicodeEncodeError as error:
        lacking = f"{error.object[error.start : error.end]!r}: the locale has no such characters"
        raise OptionError(f"{path}: {lacking} ({error.encoding}): set LC_ALL=C.UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{path}: not TOML: {parse_reason(error)}") from None


def _config(table: Mapping[str, Any], folder: str) -> Config:
    if unknown := sorted(table.keys() - KEYS):
        raise OptionError(f"{unknown[0]}: unknown key; the keys are {', '.join(sorted(KEYS))}")
    options = _texts(table, "options")
    settings = Fields()
    for key, value in table.items():
        if key in OPTION_KEYS:
            _check_type(key, value, OPTION_KEYS[key])
            word = key if value is True else f"{key}={value}"
            options += [] if value is False else [escape(word)]
        elif key in SETTINGS:
            settings |= _setting_of_key(key, value, folder)
    place = table.get("mountpoint")
    if place is not None:
        _check_type("mountpoint", place, (str,))
    config = make_config(
        packs=_texts(table, "packs"),
        mountpoint=place,
        options=options,
        settings=settings,
        folder=folder,
    )
    if "config_file" in config.settings:
        raise OptionError("options: a configuration file cannot hold 'config='")
    parse_words(config.words)  # raises here, so that the error names the file
    return config


def _setting_of_key(key: str, value: object, folder: str) -> Fields:
    _check_type(key, value, SETTINGS[key].types)
    if value is False:
        return {}
    try:
        return parse_setting(key, str(value), folder=folder)
    except OptionError as error:
        raise OptionError(f"{_shown(key, value)}: {error}") from None


def _texts(table: Mapping[str, Any], key: str) -> list[str]:
    """Return the strings of a value that is a string or a list of strings."""
    value = table.get(key, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list):
        raise OptionError(f"{_shown(key, value)}: must be a string, or a list of strings")
    for text in texts:
        _check_type(key, text, (str,))
    return texts


_TYPE_NAMES = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


def _check_type(key: str, value: object, types: tuple[type, ...]) -> None:
    if type(value) not in types:  # type(), because a bool is an int
        names = " or ".join(_TYPE_NAMES[kind] for kind in types)
        raise OptionError(f"{_shown(key, value)}: must be {names}")
    if isinstance(value, str) and "\0" in value:
        raise OptionError(f"{_shown(key, value)}: must not contain a NUL")


def _shown(key: str, value: object) -> str:
    return key if may_be_secret(str(value)) else f"{key} = {value!r}"
