"""PKCS #12 key stores, as keytool and openssl write them, through the package `cryptography`."""

from __future__ import annotations

from moldau.net.tls.pem_blocks import CERTIFICATE, KEY, KeyStore, StoreFault, to_pem

try:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )
except ImportError:
    raise StoreFault(
        "a PKCS12 key store needs the package cryptography: pip install 'moldau[security]', or "
        "convert the store to PEM"
    ) from None


def _open(data: bytes, password: str | None, what: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as fault:
        raise StoreFault(f"{what} cannot be opened as PKCS12: {fault}") from None


def key_store(data: bytes, password: str, what: str) -> KeyStore:
    store = _open(data, password, what)
    if store.key is None or store.cert is None:
        raise StoreFault(f"{what} holds no private key with a certificate")
    key = store.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    chain = [store.cert, *store.additional_certs]
    ders = [each.certificate.public_bytes(Encoding.DER) for each in chain]
    return KeyStore(to_pem(KEY, key), "".join(to_pem(CERTIFICATE, der) for der in ders))


def trusted(data: bytes, password: str | None, what: str) -> list[bytes]:
    store = _open(data, password, what)
    found = [*store.additional_certs, *([store.cert] if store.cert is not None else [])]
    return [each.certificate.public_bytes(Encoding.DER) for each in found]
