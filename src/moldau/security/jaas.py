"""Log-in modules with their options, in the form that Java calls JAAS.

A setting `sasl.jaas.config` holds one entry, a file holds sections of them. Classes are never
loaded: the names of the list below choose a mechanism, every other one is refused. Values are
secrets, and no sentence of this module quotes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from moldau.security.sasl.sasl_mechanism import (
    GSSAPI,
    OAUTHBEARER,
    PLAIN,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
)

KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
LOGIN_MODULES: Mapping[str, tuple[str, ...]] = {
    "org.apache.kafka.common.security.plain.PlainLoginModule": (PLAIN,),
    "org.apache.kafka.common.security.scram.ScramLoginModule": (SCRAM_SHA_256, SCRAM_SHA_512),
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": (OAUTHBEARER,),
    KERBEROS_MODULE: (GSSAPI,),
    "org.apache.zookeeper.server.auth.DigestLoginModule": (),
}
"""The modules that are known, and the mechanisms each stands for. The last is ZooKeeper's."""
FLAGS = ("required", "requisite", "sufficient", "optional")
TEXT_LENGTH_MAX = 1_000_000
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_TOKEN = re.compile(
    r"""(?P<space>[\x00-\x20]+|//[^\n]*|/\*.*?\*/|/[^\n*][^\n]*|/\n)
    |"(?P<double>(?:[^"\\\n]|\\.)*)"
    |'(?P<single>(?:[^'\\\n]|\\.)*)'
    |(?P<word>[A-Za-z_$\u00a0-\uffff][A-Za-z0-9_$.\u00a0-\uffff-]*)
    |(?P<number>[0-9.-][0-9.]*)
    |(?P<sign>[=;{}])""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)


class JaasError(ValueError):
    """A text that is no list of log-in modules. Says where, never what stands there."""


class LoginModule(NamedTuple):
    class_name: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.class_name}, [hidden])"

    def serves(self, mechanism: str) -> bool:
        return mechanism in LOGIN_MODULES[self.class_name]


class _Token(NamedTuple):
    sign: str
    """`=`, `;` or a brace; empty for a text."""
    text: str | None


_END = _Token("end", None)


def login_module_text(class_name: str, options: Mapping[str, str]) -> str:
    """A setting that reads back as this module."""
    quoted = {
        key: value.replace("\\", "\\\\").replace('"', '\\"') for key, value in options.items()
    }
    words = [class_name, "required", *(f'{key}="{value}"' for key, value in quoted.items())]
    return " ".join(words) + ";"


def parse_login_module(text: str) -> LoginModule:
    """The one entry of a setting."""
    tokens = _tokens(text)
    token = next(tokens, _END)
    if token is _END:
        raise JaasError("Login module not specified in JAAS config")
    module = _entry(token, tokens)
    if next(tokens, _END) is not _END:
        raise JaasError("the JAAS config has more than one login module, should be 1 module")
    return module


def parse_sections(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """A file: `Name { module flag options; ... };` any number of times."""
    sections: dict[str, tuple[LoginModule, ...]] = {}
    tokens = _tokens(text)
    for name in tokens:
        if name.text is None or next(tokens, _END).sign != "{":
            raise JaasError("a section of a JAAS file is written as Name { ... };")
        if name.text in sections:
            raise JaasError(f"section {name.text} stands twice in the JAAS file")
        modules = []
        token = next(tokens, _END)
        while token.sign != "}":
            modules.append(_entry(token, tokens))
            token = next(tokens, _END)
        if next(tokens, _END).sign != ";":
            raise JaasError(f"section {name.text} does not end with a semi-colon")
        sections[name.text] = tuple(modules)
    return sections


def _entry(first: _Token, tokens: Iterator[_Token]) -> LoginModule:
    if first.text is None:
        raise JaasError("a JAAS entry must start with the class of a login module")
    if first.text not in LOGIN_MODULES:
        known = ", ".join(LOGIN_MODULES)
        raise JaasError(f"the login module of a JAAS entry is not one of {known}")
    flag = next(tokens, _END).text
    if flag is None or flag.lower() not in FLAGS:
        raise JaasError(f"a login module must be followed by one of {', '.join(FLAGS)}")
    options: dict[str, str] = {}
    for token in tokens:
        if token.sign == ";":
            return LoginModule(first.text, options)
        value = next(tokens, _END) if next(tokens, _END).sign == "=" else _END
        if token.text is None or value.text is None:
            raise JaasError(
                f"option {len(options) + 1} of the JAAS entry is not written as key=value; "
                "values with other signs than letters must stand in quotes"
            )
        options[token.text] = value.text
    raise JaasError("JAAS config entry not terminated by semi-colon")


def _tokens(text: str) -> Iterator[_Token]:
    if len(text) > TEXT_LENGTH_MAX:
        raise JaasError(f"a JAAS config must not be longer than {TEXT_LENGTH_MAX} characters")
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise JaasError(f"character {position + 1} of the JAAS config has no place there")
        position = found.end()
        kind = found.lastgroup
        if kind in ("double", "single"):
            yield _Token("", _ESCAPE.sub(_unescaped, found[kind]))
        elif kind == "word":
            yield _Token("", found[kind])
        elif kind == "number":
            yield _Token("number", None)
        elif kind == "sign":
            yield _Token(found[kind], None)


def _unescaped(escape: re.Match[str]) -> str:
    sign = escape[1]
    if sign.isdecimal():
        return chr(int(sign, 8))
    return _ESCAPES.get(sign, sign)
