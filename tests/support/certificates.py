"""Authorities and certificates for tests of TLS, made in memory and written where a test wants."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Identity:
    """A key and its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.key = key
        self.certificate = certificate

    def key_pem(self, password: str | None = None) -> str:
        how: KeySerializationEncryption = NoEncryption()
        if password is not None:
            how = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode()

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def write(self, path: Path, password: str | None = None) -> str:
        """Key and certificate as one PEM file."""
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return str(path)

    def write_pkcs12(self, path: Path, password: str) -> str:
        how = BestAvailableEncryption(password.encode())
        data = pkcs12.serialize_key_and_certificates(b"me", self.key, self.certificate, None, how)
        path.write_bytes(data)
        return str(path)


class Authority(Identity):
    def __init__(self, name: str = "Test CA") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        super().__init__(key, _signed(subject, subject, key, key, hosts=(), is_authority=True))

    def issue(
        self, *names: tuple[x509.ObjectIdentifier, str], hosts: tuple[str, ...] = ()
    ) -> Identity:
        """`names` from the least specific to the most specific, as certificates store them."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(*name) for name in names])
        certificate = _signed(
            subject, self.certificate.subject, key, self.key, hosts=hosts, is_authority=False
        )
        return Identity(key, certificate)

    def issue_broker(self, *hosts: str) -> Identity:
        return self.issue(
            (NameOID.COMMON_NAME, "broker"), hosts=hosts or ("127.0.0.1", "localhost")
        )

    def issue_user(self, name: str) -> Identity:
        return self.issue(
            (NameOID.COUNTRY_NAME, "CZ"),
            (NameOID.ORGANIZATION_NAME, "River, Ltd"),
            (NameOID.COMMON_NAME, name),
        )


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    hosts: tuple[str, ...],
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if hosts:
        names = [_general_name(host) for host in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
