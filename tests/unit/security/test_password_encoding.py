"""Passwords that are encrypted for ZooKeeper: read again with the secret, and with no other."""

from __future__ import annotations

import os

import pytest

from moldau.security.password_encoding import (
    CBC,
    GCM,
    KEY_BITS,
    KEY_FACTORIES,
    Encryption,
    PasswordEncoder,
    PasswordFault,
)

PASSWORDS = ["secret", "", "0123456789abcdef", "Žofie 🙂", 'a,b:c="d"', "x" * 1000]


def encoder(secret: str = "tajné", **how: object) -> PasswordEncoder:
    return PasswordEncoder(secret, os.urandom, Encryption()._replace(**how))  # type: ignore[arg-type]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("cipher", [CBC, GCM])
def test_a_password_is_read_again(password: str, cipher: str) -> None:
    text = encoder(cipher=cipher).encode(password)
    assert len(password) < 6 or password not in text
    assert encoder().decode(text) == password


@pytest.mark.parametrize("factory", KEY_FACTORIES)
@pytest.mark.parametrize("bits", KEY_BITS)
def test_how_it_was_encrypted_stands_beside_it(factory: str, bits: int) -> None:
    text = encoder(key_factory=factory, key_bits=bits, iterations=1024).encode("s3cret")
    assert encoder().decode(text) == "s3cret"


def test_no_two_passwords_look_alike() -> None:
    assert encoder().encode("same") != encoder().encode("same")


@pytest.mark.parametrize("cipher", [CBC, GCM])
def test_another_secret_reads_nothing(cipher: str) -> None:
    text = encoder(cipher=cipher).encode("s3cret")
    for guess in range(20):
        with pytest.raises(PasswordFault, match="is another one"):
            encoder(f"guess {guess}").decode(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("iterations:4096", "iterations:2000000000"),
        ("iterations:4096", "iterations:0"),
        ("iterations:4096", "iterations:many"),
        ("keyLength:128", "keyLength:8"),
        ("AES/CBC/PKCS5Padding", "DES/ECB/PKCS5Padding"),
        ("salt:", "pepper:"),
        ("encryptedPassword:", "encryptedPassword:!"),
        ("initializationVector:", "initializationVector:AAAA"),
        ("passwordLength:6", "passwordLength:7"),
    ],
)
def test_what_makes_no_sense_is_refused_without_being_quoted(before: str, after: str) -> None:
    text = encoder().encode("s3cret")
    assert before in text
    with pytest.raises(PasswordFault) as refusal:
        encoder().decode(text.replace(before, after))
    assert text.split("encryptedPassword:")[1][:20] not in str(refusal.value)


@pytest.mark.parametrize("text", ["", "plain-secret", "a:b,c", ",,,", "keyLength:128"])
def test_a_text_that_is_not_encrypted_is_refused(text: str) -> None:
    with pytest.raises(PasswordFault, match="not encrypted"):
        encoder().decode(text)
