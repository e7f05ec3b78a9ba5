"""A certificate authority: what new clusters and tests need to speak TLS, as PEM texts.

Keys are elliptic (P-256) and written as PKCS #8, the only form that Kafka's PEM stores take. Needs
the package `cryptography`, which comes with `moldau[security]`.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moldau.net.tls.pem_blocks import StoreFault

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise StoreFault(
        "certificates are made by the package cryptography: pip install 'moldau[security]'"
    ) from None

EARLIER = datetime.timedelta(hours=1)
"""Clocks of other machines may be behind."""
SERVING = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
"""A broker is a client of other brokers."""
CALLING = (ExtendedKeyUsageOID.CLIENT_AUTH,)


class Identity(NamedTuple):
    """A key and its certificate, in PEM."""

    key: str
    certificate: str

    @property
    def together(self) -> str:
        """As one file: `ssl.keystore.type=PEM`."""
        return self.key + self.certificate

    def __repr__(self) -> str:
        return "Identity([hidden])"


class Authority:
    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, name: str, days: int) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        builder = _begun(subject, subject, key, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_usage(is_authority=True), True)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, identity: Identity) -> Authority:
        """Raises StoreFault."""
        try:
            key = load_pem_private_key(identity.key.encode(), None)
            certificate = x509.load_pem_x509_certificate(identity.certificate.encode())
        except (TypeError, ValueError) as fault:
            raise StoreFault(
                f"the authority's key and certificate cannot be read: {fault}"
            ) from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise StoreFault("the authority's key is not an elliptic one, as `init` makes them")
        return cls(key, certificate)

    @property
    def identity(self) -> Identity:
        return _identity(self._key, self._certificate)

    def issue_broker(self, name: str, hosts: Sequence[str], days: int) -> Identity:
        """For a broker that clients reach by these names and addresses."""
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        return self._issue(name, SERVING, days, [names])

    def issue_client(self, name: str, days: int) -> Identity:
        return self._issue(name, CALLING, days, [])

    def _issue(
        self,
        name: str,
        purposes: Iterable[x509.ObjectIdentifier],
        days: int,
        more: Iterable[x509.ExtensionType],
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _begun(_name(name), self._certificate.subject, key, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_usage(is_authority=False), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), False)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(signer, False)
        for extension in more:
            builder = builder.add_extension(extension, False)
        return _identity(key, builder.sign(self._key, hashes.SHA256()))


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _identity(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Identity:
    return Identity(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        certificate.public_bytes(Encoding.PEM).decode(),
    )
