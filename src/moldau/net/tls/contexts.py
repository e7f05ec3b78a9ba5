"""OpenSSL's contexts from settings: to be spoken to, and to speak to brokers."""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator

from moldau.net.tls.cipher_suites import cipher_suites
from moldau.net.tls.pem_blocks import KeyStore, StoreFault
from moldau.net.tls.stores import key_store_of, trusted_of
from moldau.net.tls.tls_settings import TlsSettings

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
HTTPS = "https"


def server_context(config: TlsSettings, client_auth: str) -> ssl.SSLContext:
    """For a listener; `config` is what holds on it. Raises StoreFault."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    store = key_store_of(config)
    if store is None:
        raise StoreFault(
            "a listener that speaks TLS needs a certificate: set ssl.keystore.location or "
            "ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    _load_key(context, store)
    context.verify_mode = CLIENT_AUTH[client_auth]
    if client_auth != "none":
        _trust(context, trusted_of(config), ssl.Purpose.CLIENT_AUTH)
    _choose(context, config)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    return context


def client_context(config: TlsSettings) -> ssl.SSLContext:
    """To brokers, for a client or another broker. Raises StoreFault."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.ssl_endpoint_identification_algorithm.lower() == HTTPS
    store = key_store_of(config)
    if store is not None:
        _load_key(context, store)
    _trust(context, trusted_of(config), ssl.Purpose.SERVER_AUTH)
    _choose(context, config)
    return context


def _choose(context: ssl.SSLContext, config: TlsSettings) -> None:
    names = [name for name in config.ssl_enabled_protocols if name]
    unknown = [name for name in (*names, config.ssl_protocol) if name not in (*VERSIONS, "TLS")]
    if unknown or not names:
        raise StoreFault(
            f"ssl.enabled.protocols and ssl.protocol must name TLSv1.2 or TLSv1.3, not "
            f"{', '.join(unknown) or 'nothing'}"
        )
    versions = {VERSIONS[name] for name in names if name in VERSIONS}
    if config.ssl_protocol == "TLSv1.2":
        versions.discard(ssl.TLSVersion.TLSv1_3)
    try:
        suites = cipher_suites(config.ssl_cipher_suites)
        if config.ssl_cipher_suites:
            if not suites.has_tls_1_3:
                versions.discard(ssl.TLSVersion.TLSv1_3)
            if suites.openssl:
                context.set_ciphers(suites.openssl)
            else:
                versions.discard(ssl.TLSVersion.TLSv1_2)
    except (ValueError, ssl.SSLError) as fault:
        raise StoreFault(f"ssl.cipher.suites cannot be used: {fault}") from None
    if not versions:
        raise StoreFault("ssl.enabled.protocols, ssl.protocol and ssl.cipher.suites leave nothing")
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _trust(context: ssl.SSLContext, trusted: str | None, purpose: ssl.Purpose) -> None:
    if trusted is None:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as fault:
        raise StoreFault(f"the trusted certificates cannot be used: {fault.reason}") from None
    # As in Java whatever is in the store is trusted, also if it is nobody's root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _load_key(context: ssl.SSLContext, store: KeyStore) -> None:
    with _as_file(store.key + store.chain) as path:
        try:
            # Without a password OpenSSL would ask at the terminal.
            context.load_cert_chain(path, password=store.password or "")
        except ssl.SSLError as fault:
            why = (fault.reason or "the password is wrong").replace("_", " ").lower()
            raise StoreFault(f"the key and certificate cannot be used: {why}") from None


@contextlib.contextmanager
def _as_file(text: str) -> Iterator[str]:
    """OpenSSL takes paths only: a file in memory where there are such, else one nobody else may
    read."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("moldau-key", os.MFD_CLOEXEC)
        path = f"/proc/self/fd/{descriptor}"
    else:
        descriptor, path = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            yield path
    finally:
        if not path.startswith("/proc/"):
            os.unlink(path)
