"""Key stores in every form, made by openssl, keytool and `cryptography`; and names in them."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from moldau.config.broker_config import BrokerConfig
from moldau.net.tls.cipher_suites import TLS_1_3, cipher_suites, openssl_name
from moldau.net.tls.contexts import client_context, server_context
from moldau.net.tls.distinguished_names import BadCertificate, subject_of
from moldau.net.tls.pem_blocks import StoreFault
from moldau.net.tls.stores import key_store_of, trusted_of
from tests.support.certificates import Authority

CA = Authority()
BROKER = CA.issue_broker()
PASSWORD = "se cret"


def config_of(settings: dict[str, str]) -> BrokerConfig:
    config, _ = BrokerConfig.parse({"broker.id": "1", **settings})
    return config


def keytool(*words: str) -> None:
    if shutil.which("keytool") is None:
        pytest.skip("needs keytool of a JDK")
    subprocess.run(["keytool", *words], check=True, capture_output=True)


def make(form: str, directory: Path) -> dict[str, str]:
    """The settings of a key store of this form, and of a trust store."""
    store = directory / "store"
    if form == "inline PEM":
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": BROKER.key_pem(PASSWORD).replace("\n", " "),
            "ssl.keystore.certificate.chain": BROKER.certificate_pem.replace("\n", "  "),
            "ssl.key.password": PASSWORD,
        }
    if form == "PEM":
        location = BROKER.write(store, PASSWORD)
        kind = {"ssl.keystore.type": "PEM", "ssl.key.password": PASSWORD}
        return {**kind, "ssl.keystore.location": location}
    location = BROKER.write_pkcs12(store, PASSWORD)
    settings = {"ssl.keystore.location": location, "ssl.keystore.password": PASSWORD}
    if form == "PKCS12 called JKS":
        return settings
    if form == "PKCS12":
        return {**settings, "ssl.keystore.type": "PKCS12"}
    java = str(directory / "java")
    source = ("-srckeystore", location, "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD)
    target = ("-destkeystore", java, "-deststoretype", "JKS", "-deststorepass", PASSWORD)
    keytool("-importkeystore", "-noprompt", *source, *target)
    assert Path(java).read_bytes()[:4] == b"\xfe\xed\xfe\xed"
    return {**settings, "ssl.keystore.location": java}


FORMS = ("inline PEM", "PEM", "PKCS12", "PKCS12 called JKS", "JKS")


@pytest.mark.parametrize("form", FORMS)
def test_a_key_store_is_read_whatever_its_form(form: str, tmp_path: Path) -> None:
    config = config_of(make(form, tmp_path))
    store = key_store_of(config)
    assert store is not None
    assert store.chain.split() == BROKER.certificate_pem.split()
    if form not in ("PEM", "inline PEM"):
        assert store.key.split() == BROKER.key_pem().split()
    server_context(config, "none")


@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_password_is_one_sentence_without_the_password(form: str, tmp_path: Path) -> None:
    settings = make(form, tmp_path)
    for key in ("ssl.key.password", "ssl.keystore.password"):
        if key in settings:
            settings[key] = "guessed wrong"
    with pytest.raises(StoreFault) as caught:
        server_context(config_of(settings), "none")
    assert "guessed" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["JKS", "PKCS12"])
def test_trust_stores_of_keytool_are_read(form: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(CA.certificate_pem)
    path = str(tmp_path / "trust")
    keytool(
        *("-importcert", "-noprompt", "-alias", "ca", "-file", str(tmp_path / "ca.pem")),
        *("-keystore", path, "-storetype", form, "-storepass", PASSWORD),
    )
    settings = {"ssl.truststore.location": path, "ssl.truststore.password": PASSWORD}
    trusted = trusted_of(config_of(settings))
    assert trusted is not None
    assert trusted.split() == CA.certificate_pem.split()
    if form == "JKS":
        # Its password only guards against changes.
        del settings["ssl.truststore.password"]
        assert trusted_of(config_of(settings)) == trusted


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "nothing": ({}, "needs a certificate"),
    "no such file": (
        {"ssl.keystore.location": "/nowhere", "ssl.keystore.password": "x"},
        "/nowhere cannot be read: No such file",
    ),
    "no password": ({"ssl.keystore.location": "{noise}"}, "ssl.keystore.password is missing"),
    "noise": (
        {"ssl.keystore.location": "{noise}", "ssl.keystore.password": "x"},
        "neither a JKS nor a PKCS12",
    ),
    "a cut JKS": (
        {"ssl.truststore.location": "{cut}"},
        "cut short or damaged",
    ),
    "an unknown type": ({"ssl.keystore.type": "BKS"}, "ssl.keystore.type is BKS, must be one of"),
    "half of it inline": (
        {"ssl.keystore.type": "PEM", "ssl.keystore.key": "x"},
        "go together",
    ),
    "inline and not PEM": ({"ssl.keystore.key": "x"}, "ssl.keystore.type must be PEM"),
    "an old key": (
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": "-----BEGIN EC PRIVATE KEY----- AAAA -----END EC PRIVATE KEY-----",
            "ssl.keystore.certificate.chain": CA.certificate_pem,
        },
        "make it PKCS #8",
    ),
    "a key of another certificate": (
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": CA.key_pem(),
            "ssl.keystore.certificate.chain": BROKER.certificate_pem,
        },
        "key values mismatch",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_used_is_one_sentence(what: str, tmp_path: Path) -> None:
    settings, sentence = WRONG[what]
    (tmp_path / "noise").write_bytes(b"noise")
    (tmp_path / "cut").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\7")
    places = {
        key: value.format(noise=tmp_path / "noise", cut=tmp_path / "cut")
        for key, value in settings.items()
    }
    config = config_of(places)
    with pytest.raises(StoreFault, match=sentence):
        if "ssl.truststore.location" in places:
            trusted_of(config)
        server_context(config, "none")


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("ssl.enabled.protocols", "TLSv1.1", "must name TLSv1.2 or TLSv1.3, not TLSv1.1"),
        ("ssl.protocol", "SSLv3", "not SSLv3"),
        ("ssl.cipher.suites", "TLS_WHATEVER", "TLS_WHATEVER is not a cipher suite"),
        ("ssl.cipher.suites", TLS_1_3[0], "cannot be chosen singly"),
    ],
)
def test_settings_that_leave_no_tls_are_refused(key: str, value: str, sentence: str) -> None:
    with pytest.raises(StoreFault, match=sentence):
        client_context(config_of({key: value}))


def test_without_the_package_the_sentence_says_what_to_install(tmp_path: Path) -> None:
    location = BROKER.write_pkcs12(tmp_path / "store", PASSWORD)
    script = f"""
import sys
sys.modules["cryptography"] = None
from moldau.config.broker_config import BrokerConfig
from moldau.net.tls.stores import key_store_of
config, _ = BrokerConfig.parse(
    {{"ssl.keystore.location": {location!r}, "ssl.keystore.password": "x"}}
)
key_store_of(config)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "pip install 'moldau[security]'" in done.stderr


def test_names_of_suites_are_openssls() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name, wanted in {
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256": "DHE-RSA-AES128-SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    }.items():
        assert openssl_name(name) == wanted
        context.set_ciphers(wanted)
    assert cipher_suites([*TLS_1_3]) == ("", True)


def test_a_name_is_written_as_java_writes_it() -> None:
    identity = CA.issue(
        (NameOID.COUNTRY_NAME, "CZ"),
        (NameOID.STATE_OR_PROVINCE_NAME, "Praha"),
        (NameOID.LOCALITY_NAME, " Prag "),
        (NameOID.DOMAIN_COMPONENT, "example"),
        (NameOID.ORGANIZATION_NAME, 'A "B" <c>;\\d+e, f'),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "#7"),
        (NameOID.EMAIL_ADDRESS, "a@b.c"),
        (NameOID.USER_ID, "u1"),
        (NameOID.COMMON_NAME, "Žofie"),
    )
    der = identity.certificate.public_bytes(Encoding.DER)
    assert subject_of(der) == (
        r"CN=Žofie,UID=u1,1.2.840.113549.1.9.1=#1605614062" + "2e63,"
        r"OU=\#7,O=A \"B\" \<c\>\;\\d\+e\, f,DC=example,L=\ Prag\ ,ST=Praha,C=CZ"
    )
    for end in range(0, len(der), 7):
        with pytest.raises(BadCertificate):
            subject_of(der[:end])
