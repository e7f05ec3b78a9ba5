"""Keys and certificates from settings: PEM, PKCS #12 or JKS, told apart by what they hold.

Java's store types do not tell: each opens the other's files, and keytool has long written PKCS #12
where JKS was asked for. PEM and JKS need the standard library alone, PKCS #12 the package
`cryptography`, which comes with `moldau[security]`.
"""

from __future__ import annotations

from pathlib import Path

from moldau.net.tls import java_key_store
from moldau.net.tls.java_key_store import JavaKeyStore
from moldau.net.tls.pem_blocks import (
    CERTIFICATE,
    KeyStore,
    StoreFault,
    certificates,
    private_key,
    to_pem,
)
from moldau.net.tls.tls_settings import TlsSettings

PEM = "PEM"
STORE_TYPES = ("JKS", "PKCS12", PEM)
JCEKS_MAGIC = b"\xce\xce\xce\xce"
DER_SEQUENCE = 0x30


def key_store_of(config: TlsSettings) -> KeyStore | None:
    """The key and certificates of whoever is configured; None if the settings name none."""
    inline = config.ssl_keystore_key, config.ssl_keystore_certificate_chain
    location, kind = config.ssl_keystore_location, config.ssl_keystore_type
    _check_type("ssl.keystore.type", kind)
    key_password = _text(config.ssl_key_password)
    if any(each is not None for each in inline):
        _check_inline("ssl.keystore", kind, location)
        key, chain = inline
        if key is None or chain is None:
            raise StoreFault("ssl.keystore.key and ssl.keystore.certificate.chain go together")
        return KeyStore(
            private_key(str(key), "ssl.keystore.key"),
            certificates(str(chain), "ssl.keystore.certificate.chain"),
            key_password,
        )
    if location is None:
        return None
    data, what = _read("ssl.keystore.location", location)
    password = _text(config.ssl_keystore_password)
    if kind.upper() == PEM:
        if password is not None:
            raise StoreFault("ssl.keystore.password is not for PEM; use ssl.key.password")
        text = data.decode("latin-1")
        return KeyStore(private_key(text, what), certificates(text, what), key_password)
    if password is None:
        raise StoreFault(f"ssl.keystore.password is missing: {what} needs one")
    if data.startswith(java_key_store.MAGIC):
        return JavaKeyStore(data, password, what).key_store(key_password or password)
    _check_pkcs12(data, what)
    from moldau.net.tls.pkcs12_store import key_store

    return key_store(data, password, what)


def trusted_of(config: TlsSettings) -> str | None:
    """The certificates that are trusted, in PEM; None if the settings name none."""
    inline = config.ssl_truststore_certificates
    location, kind = config.ssl_truststore_location, config.ssl_truststore_type
    _check_type("ssl.truststore.type", kind)
    if inline is not None:
        _check_inline("ssl.truststore", kind, location)
        return certificates(str(inline), "ssl.truststore.certificates")
    if location is None:
        return None
    data, what = _read("ssl.truststore.location", location)
    password = _text(config.ssl_truststore_password)
    if kind.upper() == PEM:
        if password is not None:
            raise StoreFault("ssl.truststore.password is not for PEM; leave it out")
        return certificates(data.decode("latin-1"), what)
    if data.startswith(java_key_store.MAGIC):
        store = JavaKeyStore(data, password, what)
        found = store.trusted or [each for _, chain in store.keys for each in chain]
    else:
        _check_pkcs12(data, what)
        from moldau.net.tls.pkcs12_store import trusted

        found = trusted(data, password, what)
    if not found:
        raise StoreFault(f"{what} holds no certificate")
    return "".join(to_pem(CERTIFICATE, each) for each in found)


def _text(password: object) -> str | None:
    return None if password is None else str(password)


def _check_type(key: str, kind: str) -> None:
    if kind.upper() not in STORE_TYPES:
        raise StoreFault(f"{key} is {kind}, must be one of {', '.join(STORE_TYPES)}")


def _check_inline(prefix: str, kind: str, location: str | None) -> None:
    if kind.upper() != PEM:
        raise StoreFault(f"{prefix}.type must be PEM where the certificates stand in the settings")
    if location is not None:
        raise StoreFault(f"{prefix}.location and certificates in the settings exclude each other")


def _read(key: str, location: str) -> tuple[bytes, str]:
    try:
        return Path(location).read_bytes(), f"{key} {location}"
    except OSError as fault:
        raise StoreFault(f"{key} {location} cannot be read: {fault.strerror}") from None


def _check_pkcs12(data: bytes, what: str) -> None:
    if data.startswith(JCEKS_MAGIC):
        raise StoreFault(f"{what} is a JCEKS key store, must be JKS, PKCS12 or PEM")
    if data.startswith(b"-----BEGIN"):
        raise StoreFault(f"{what} is in PEM form: say so by its type")
    if data[:1] != bytes([DER_SEQUENCE]):
        raise StoreFault(f"{what} is neither a JKS nor a PKCS12 key store")
