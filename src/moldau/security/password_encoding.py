"""Passwords among the settings in ZooKeeper, encrypted as Apache Kafka 3.9 does it.

The key comes from `password.encoder.secret` by PBKDF2. How a password was encrypted stands beside
it, so that any broker that knows the secret can read it, whatever it would write itself. AES comes
from the package `cryptography`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

CBC, GCM = "AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"
CIPHERS = (CBC, GCM)
KEY_FACTORIES = {
    "PBKDF2WithHmacSHA512": "sha512",
    "PBKDF2WithHmacSHA384": "sha384",
    "PBKDF2WithHmacSHA256": "sha256",
    "PBKDF2WithHmacSHA224": "sha224",
    "PBKDF2WithHmacSHA1": "sha1",
}
KEY_FACTORY = "PBKDF2WithHmacSHA512"
KEY_BITS = (128, 192, 256)
SALT_BYTES = 256
BLOCK_BYTES = 16
GCM_NONCE_BYTES = 12
GCM_TAG_BITS = 128
ITERATIONS_MAX = 1_000_000
"""More would hold up whoever reads the password."""
TEXT_LENGTH_MAX = 1_000_000
NEEDS_CRYPTOGRAPHY = (
    "passwords are encrypted by the package cryptography: pip install 'moldau[security]'"
)
_COMMA = re.compile(r"\s*,\s*")


class PasswordFault(ValueError):
    """A text that is no password of this secret's. Quotes nothing of it."""


class Encryption(NamedTuple):
    """How to encrypt; how to decrypt stands beside each password."""

    key_factory: str = KEY_FACTORY
    cipher: str = CBC
    key_bits: int = 128
    iterations: int = 4096


class PasswordEncoder:
    def __init__(
        self,
        secret: str,
        random_bytes: Callable[[int], bytes],
        encryption: Encryption | None = None,
    ) -> None:
        """Raises PasswordFault if there is nothing to encrypt with."""
        try:
            import cryptography  # noqa: F401
        except ImportError:
            raise PasswordFault(NEEDS_CRYPTOGRAPHY) from None
        self._secret = secret.encode()
        self._random_bytes = random_bytes
        self._encryption = encryption or Encryption()

    def encode(self, password: str) -> str:
        key_factory, cipher, key_bits, iterations = self._encryption
        salt = self._random_bytes(SALT_BYTES)
        key = self._key(key_factory, salt, iterations, key_bits)
        nonce = self._random_bytes(GCM_NONCE_BYTES if cipher == GCM else BLOCK_BYTES)
        words = {
            "keyFactoryAlgorithm": key_factory,
            "cipherAlgorithm": cipher,
            "keyLength": str(key_bits),
            "salt": _base64(salt),
            "iterations": str(iterations),
            "encryptedPassword": _base64(_encrypted(cipher, key, nonce, password.encode())),
            "passwordLength": str(_java_length(password)),
            "initializationVector": _base64(nonce),
        }
        if cipher == GCM:
            words["authenticationTagLength"] = str(GCM_TAG_BITS)
        return ",".join(f"{key}:{value}" for key, value in words.items())

    def decode(self, text: str) -> str:
        """Raises PasswordFault."""
        words = _words(text)
        try:
            cipher = words["cipherAlgorithm"]
            iterations, key_bits = int(words["iterations"]), int(words["keyLength"])
            salt, nonce = _bytes(words["salt"]), _bytes(words["initializationVector"])
            data = _bytes(words["encryptedPassword"])
            length = int(words["passwordLength"])
            factory = words["keyFactoryAlgorithm"]
            if words.get("authenticationTagLength", str(GCM_TAG_BITS)) != str(GCM_TAG_BITS):
                raise PasswordFault(f"its tag has not {GCM_TAG_BITS} bits")
        except (KeyError, ValueError):
            raise PasswordFault("it is not encrypted, or in another way") from None
        if factory not in KEY_FACTORIES or cipher not in CIPHERS or key_bits not in KEY_BITS:
            raise PasswordFault(f"{factory}, {cipher} and {key_bits} bits are not all supported")
        if not 0 < iterations <= ITERATIONS_MAX:
            raise PasswordFault(f"{iterations} iterations, of {ITERATIONS_MAX}")
        key = self._key(factory, salt, iterations, key_bits)
        try:
            password = _decrypted(cipher, key, nonce, data).decode()
        except ValueError:
            raise PasswordFault("password.encoder.secret is another one") from None
        if _java_length(password) != length:
            raise PasswordFault("password.encoder.secret is another one")
        return password

    def _key(self, factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
        return hashlib.pbkdf2_hmac(
            KEY_FACTORIES[factory], self._secret, salt, iterations, bits // 8
        )


def _encrypted(cipher: str, key: bytes, nonce: bytes, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if cipher == GCM:
        return AESGCM(key).encrypt(nonce, data, None)
    padding = BLOCK_BYTES - len(data) % BLOCK_BYTES
    machine = Cipher(algorithms.AES(key), modes.CBC(nonce)).encryptor()
    return machine.update(data + bytes([padding]) * padding) + machine.finalize()


def _decrypted(cipher: str, key: bytes, nonce: bytes, data: bytes) -> bytes:
    """Raises ValueError."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if cipher == GCM:
        try:
            return AESGCM(key).decrypt(nonce, data, None)
        except InvalidTag:
            raise ValueError("another key") from None
    machine = Cipher(algorithms.AES(key), modes.CBC(nonce)).decryptor()
    padded = machine.update(data) + machine.finalize()
    padding = padded[-1] if padded else 0
    if not 0 < padding <= BLOCK_BYTES or padded[-padding:] != bytes([padding]) * padding:
        raise ValueError("another key")
    return padded[:-padding]


def _words(text: str) -> Mapping[str, str]:
    if len(text) > TEXT_LENGTH_MAX:
        raise PasswordFault(f"it has {len(text)} characters, of {TEXT_LENGTH_MAX}")
    pairs = (part.rpartition(":") for part in _COMMA.split(text.strip()))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _java_length(text: str) -> int:
    """Java counts what takes two of its characters twice."""
    return len(text.encode("utf-16-le")) // 2


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    """Raises ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as fault:
        raise ValueError(str(fault)) from None
