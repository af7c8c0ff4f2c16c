"""Where a configuration comes from: flags, environment, file; and the one line that is said when it is wrong.

Knows files, variables and pydantic's errors; no key by name but the secrets that may stand in files of their own.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pydantic import BaseModel, ValidationError, create_model
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict

M = TypeVar("M", bound=BaseModel)

PREFIX: Final = "EMQPROXY_"
FILE_VARIABLE: Final = "EMQPROXY_CONFIG"
SERVICE_LINK: Final = re.compile(r"_SERVICE_(HOST|PORT(_.*)?)$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$")
"""What Kubernetes puts into every container for a Service whose name begins with `emqproxy`; no setting of ours."""

WORDS: Final[Mapping[str, str]] = {
    "model_type": "not a table",
    "tuple_type": "not a list",
    "too_short": "an empty list",
    "string_type": "not a string",
    "string_unicode": "not UTF-8",
    "string_pattern_mismatch": "a control character stands in it",
    "bool_type": "neither true nor false",
    "bool_parsing": "neither true nor false",
    "int_type": "not a whole number",
    "int_parsing": "not a whole number",
    "int_from_float": "not a whole number",
    "int_parsing_size": "too many digits",
    "float_type": "not a number",
    "float_parsing": "not a number",
    "value_error": "not a number",
}
"""Instead of pydantic's own, which name its insides. It may go on saying what a number is to be above or below."""


SECRET_FILES: Final = ("trace.token_key", "tls.key_password", "upstream_tls.key_password")
"""Secrets that may stand in a file of their own (`…_file`): a Kubernetes or Docker secret is mounted as one."""


class ConfigError(Exception):
    """One line that names the flag, variable or key, and says what to write instead."""


class KeyValueError(ValueError):
    """What is wrong with one key in the light of others: told of a whole model, it names the key itself."""

    def __init__(self, key: str, words: str) -> None:
        super().__init__(words)
        self.key = key


def printable(text: str) -> str:
    """The same, with what a terminal would act upon shown as TOML and JSON escape it: `\\u001b`."""
    return "".join(
        c if c.isprintable() else f"\\u{ord(c):04x}" if ord(c) < 0x1_0000 else f"\\U{ord(c):08x}" for c in text
    )


def load_into(model: type[M], file: str | None, flags: Mapping[str, object]) -> M:
    """See `config.load`."""
    file = file or os.environ.get(FILE_VARIABLE) or None
    sources = _Sources(model, file, flags)
    merged = sources.merged()
    for secret in SECRET_FILES:
        _read_secret(secret, merged, sources)
    try:
        return model.model_validate(merged)
    except ValidationError as error:
        raise ConfigError(sources.sentence(error.errors()[0])) from None


class _Sources:
    """All that was given, and by whom: the later of them wins, and is named when it is wrong."""

    def __init__(self, model: type[BaseModel], file: str | None, flags: Mapping[str, object]) -> None:
        self._file = file
        self._flags = flags
        self._hints = dict(_hints(model))
        self._in_file = _read_toml(file) if file else {}
        self._in_environment = self._environment(model)

    def merged(self) -> dict[str, Any]:
        merged = _overlaid(self._in_file, self._in_environment)
        for key, value in self._flags.items():
            merged = _overlaid(merged, _nested(key, value))
        return merged

    def origin(self, key: str) -> str:
        """Who gave this key its value, in the words of the one who gave it."""
        if key in self._flags:
            return "--" + key.rpartition(".")[2].replace("_", "-")
        if _has(self._in_environment, key):
            return _variable(key)
        return f"{printable(key)} in {self._file}" if self._file else printable(key)

    def sentence(self, error: ErrorDetails) -> str:
        # The path into a list goes no further than the key: its items are described by it.
        names = [str(part) for part in error["loc"] if isinstance(part, str)]
        while len(names) > 1 and error["type"] != "extra_forbidden" and ".".join(names) not in self._hints:
            names.pop()
        key = ".".join(names) or getattr(error.get("ctx", {}).get("error"), "key", "")
        if error["type"] == "extra_forbidden":
            return f"{self.origin(key)}: {self._unknown(key)}"
        if error["type"] == "value_error" and str(error["ctx"]["error"]) != "not a number":
            return f"{self.origin(key)}: {error['ctx']['error']}"
        if error["type"] == "literal_error":
            return f"{self.origin(key)}: unknown value; write {self._hints[key]}"
        words = WORDS.get(error["type"], error["msg"][0].lower() + error["msg"][1:])
        return f"{self.origin(key)}: {words}; write {self._hints[key]}"

    def _environment(self, model: type[BaseModel]) -> dict[str, Any]:
        tables = {key.partition(".")[0] for key in self._hints if "." in key}
        known = {_variable(key) for key in self._hints if key not in tables} | {FILE_VARIABLE}
        for name in os.environ:
            upper = name.upper()
            if upper.startswith(PREFIX) and upper not in known and not SERVICE_LINK.search(upper):
                key = upper.removeprefix(PREFIX).replace("__", ".").lower()
                raise ConfigError(f"{name}: {self._unknown(key, variable=True)}")
        # The model stays free of its environment; this twin of it is asked what stands there. Nothing is decoded:
        # our own keys say how a list is written in a variable.
        base = type("Undecoded", (BaseSettings,), {"model_config": SettingsConfigDict(enable_decoding=False)})
        twin = create_model("Environment", __base__=(base, model))
        return EnvSettingsSource(cast("type[BaseSettings]", twin), env_prefix=PREFIX, env_nested_delimiter="__")()

    def _unknown(self, key: str, *, variable: bool = False) -> str:
        name = key.rpartition(".")[2]
        tables = {known.partition(".")[0] for known in self._hints if "." in known}
        known = [other for other in self._hints if other not in tables or not (variable or "." in key)]
        near = (
            [other for other in known if other.rpartition(".")[2] == name]  # in the wrong table
            or difflib.get_close_matches(key, known, n=1)
            or difflib.get_close_matches(name, known, n=1)
            or [other for other in known if other.startswith(f"{key}.")]  # a table, given as one variable
        )
        if near:
            return f"unknown; write {_variable(near[0]) if variable else near[0]}, or remove it"
        return "unknown; remove it"


def _read_secret(key: str, merged: dict[str, Any], sources: _Sources) -> None:
    name, _, secret = key.partition(".")
    table = merged.get(name)
    path = table.get(f"{secret}_file") if isinstance(table, dict) else None
    if not isinstance(table, dict) or not isinstance(path, str) or not path:
        return
    named = sources.origin(f"{key}_file")
    if table.get(secret):
        raise ConfigError(f"{named}: {sources.origin(key)} is set too; write one of the two")
    try:
        table[secret] = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ConfigError(f"{named}: cannot read {path} ({reason}); write the path of a readable file") from None
    if not table[secret]:
        raise ConfigError(f"{named}: {path} is empty; write the {secret.rpartition('_')[2]} into it")


def _read_toml(file: str) -> dict[str, Any]:
    try:
        text = Path(file).read_text(encoding="utf-8")
        if text.startswith("\ufeff"):
            raise ConfigError(f"{file}: begins with a byte order mark (BOM); save it as UTF-8 without one")
        return tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}; write the path of a TOML file") from None
    except RecursionError:
        raise ConfigError(f"{file}: nested too deep; write tables one deep, as [lateness], and plain lists") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: not UTF-8; write the path of a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: not TOML: {error}; write lines like key = value") from None


def _hints(model: type[BaseModel], table: str = "") -> Iterable[tuple[str, str]]:
    """Every key, dotted, with what to write for it."""
    for name, field in model.model_fields.items():
        yield table + name, field.description or ""
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _hints(field.annotation, f"{table}{name}.")


def _variable(key: str) -> str:
    return PREFIX + key.replace(".", "__").upper()


def _nested(key: str, value: object) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def _has(values: Mapping[str, Any], key: str) -> bool:
    here: object = values
    for part in key.split("."):
        if not isinstance(here, Mapping) or part not in here:
            return False
        here = here[part]
    return True


def _overlaid(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """`upper` over `lower`, table by table; the arguments stay as they are."""
    merged = dict(lower)
    for key, value in upper.items():
        if isinstance(value, Mapping):
            under = merged.get(key)
            merged[key] = _overlaid(under if isinstance(under, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged
