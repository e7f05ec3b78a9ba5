"""What a broker for tests needs to be a secured one, and what clients need to be let in.

    with moldau.testing.broker(security="SASL_SSL") as broker:
        moldau.Producer(broker.client_settings)
        confluent_kafka.Producer(broker.librdkafka_settings)

The authority, its certificates and the passwords are made for one broker and thrown away with it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.security.jaas import login_module_text

if TYPE_CHECKING:
    import ssl

    from moldau.net.tls.authority import Authority

SSL, SASL_SSL, SASL_PLAINTEXT = "SSL", "SASL_SSL", "SASL_PLAINTEXT"
PROTOCOLS = (SSL, SASL_SSL, SASL_PLAINTEXT)
PLAIN, BEARER = "PLAIN", "OAUTHBEARER"
SCRAM = ("SCRAM-SHA-512", "SCRAM-SHA-256")
MECHANISMS = (*SCRAM, PLAIN)
CLIENT_AUTH = ("none", "requested", "required")
USER, BROKER = "moldau", "broker"
PASSWORD_BYTES = 18
DAYS = 2
ITERATIONS = 4096
HOSTS = ("127.0.0.1", "localhost")
_MODULES = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    BEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    **dict.fromkeys(SCRAM, "org.apache.kafka.common.security.scram.ScramLoginModule"),
}


class Security:
    """One listener's protocol, mechanisms and users.

        Security("SASL_SSL", users={"alice": "wonderland"})
        Security("SSL", client_auth="required")

    Who logs in is a user of `users` (name to password); without any there is one, `moldau`, with a
    password that nobody knows but the settings given out here. All of `mechanisms` know all users.
    `OAUTHBEARER` is the unsecured one for development. A certificate says `CN=name`."""

    def __init__(
        self,
        protocol: str = SASL_SSL,
        *,
        mechanisms: Sequence[str] = MECHANISMS,
        users: Mapping[str, str] | None = None,
        client_auth: str = "none",
    ) -> None:
        _check("protocol", protocol, PROTOCOLS)
        _check("client_auth", client_auth, CLIENT_AUTH)
        for mechanism in mechanisms:
            _check("mechanism", mechanism, tuple(_MODULES))
        if not mechanisms:
            raise ValueError(f"a log-in needs a mechanism: name some of {', '.join(_MODULES)}")
        self.protocol = protocol
        self.mechanisms = tuple(mechanisms)
        self.users = dict(users or {USER: secrets.token_urlsafe(PASSWORD_BYTES)})
        self.client_auth = client_auth
        self._broker_password = secrets.token_urlsafe(PASSWORD_BYTES)
        self._authority: Authority | None = None
        self._directory = Path()

    def __repr__(self) -> str:
        return f"Security({self.protocol})"

    @classmethod
    def of(cls, asked: Security | str | None) -> Security | None:
        return cls(asked) if isinstance(asked, str) else asked

    @property
    def has_tls(self) -> bool:
        return self.protocol in (SSL, SASL_SSL)

    @property
    def has_login(self) -> bool:
        return self.protocol in (SASL_SSL, SASL_PLAINTEXT)

    # For the broker

    def prepare(self, directory: Path, data: Path) -> None:
        """Before the first start: the files, and the users of SCRAM. Later it does nothing."""
        from moldau.metadata.embedded import FILE_NAME

        self._directory = directory / "security"
        if self._authority is None and self.has_tls:
            from moldau.net.tls.authority import Authority

            self._authority = Authority.create("Moldau test CA", DAYS)
            self._write("ca.pem", self._authority.identity.certificate)
            broker = self._authority.issue_broker(BROKER, HOSTS, DAYS)
            self._write("broker.pem", broker.together)
        is_new = not (data / FILE_NAME).exists()
        if is_new and self.has_login and set(SCRAM) & set(self.mechanisms):
            from moldau.broker.access.first_access import credentials_of, write_first_access

            users = {BROKER: self._broker_password, **self.users}
            write_first_access(str(data), credentials_of(users, ITERATIONS))

    def broker_settings(self, address: str, advertised: str | None = None) -> dict[str, str]:
        """Of server.properties, after `prepare`."""
        settings = {
            "listeners": f"{self.protocol}://{address}",
            "security.inter.broker.protocol": self.protocol,
        }
        if advertised is not None:
            settings["advertised.listeners"] = f"{self.protocol}://{advertised}"
        prefix = f"listener.name.{self.protocol.lower()}."
        if self.has_tls:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._directory / "broker.pem"),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self._directory / "ca.pem"),
                f"{prefix}ssl.client.auth": self.client_auth,
            }
        if self.has_login:
            settings["sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
            settings["sasl.mechanism.inter.broker.protocol"] = self.mechanisms[0]
            for mechanism in self.mechanisms:
                key = f"{prefix}{mechanism.lower()}.sasl.jaas.config"
                settings[key] = self._broker_module(mechanism)
        return settings

    def probe_context(self) -> ssl.SSLContext | None:
        """How to ask whether the broker answers."""
        if not self.has_tls:
            return None
        import ssl

        context = ssl.create_default_context(cafile=str(self._directory / "ca.pem"))
        if self.client_auth != "none":
            context.load_cert_chain(self.certificate(BROKER))
        return context

    # For clients

    def client_settings(
        self, user: str | None = None, mechanism: str | None = None
    ) -> dict[str, str]:
        """In Kafka's own words, for Moldau's clients and Java's: whoever is meant (the first user)
        by the first mechanism, or by another."""
        settings = {"security.protocol": self.protocol}
        if self.has_tls:
            settings["ssl.truststore.type"] = "PEM"
            settings["ssl.truststore.location"] = str(self._directory / "ca.pem")
            if self.client_auth != "none":
                settings["ssl.keystore.type"] = "PEM"
                settings["ssl.keystore.location"] = self.certificate(self._user(user))
        if self.has_login:
            chosen = self._mechanism(mechanism)
            settings["sasl.mechanism"] = chosen
            settings["sasl.jaas.config"] = self._client_module(self._user(user), chosen)
        return settings

    def librdkafka_settings(
        self, user: str | None = None, mechanism: str | None = None
    ) -> dict[str, str]:
        """The same for confluent-kafka and whatever else is made of librdkafka."""
        settings = {"security.protocol": self.protocol}
        if self.has_tls:
            settings["ssl.ca.location"] = str(self._directory / "ca.pem")
            if self.client_auth != "none":
                path = self.certificate(self._user(user))
                settings["ssl.certificate.location"] = path
                settings["ssl.key.location"] = path
        if self.has_login:
            name, chosen = self._user(user), self._mechanism(mechanism)
            settings["sasl.mechanism"] = chosen
            if chosen == BEARER:
                settings["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
                settings["sasl.oauthbearer.config"] = f"principal={name}"
            else:
                settings["sasl.username"] = name
                settings["sasl.password"] = self.users[name]
        return settings

    @property
    def ca_path(self) -> str:
        """The certificate to trust, as a PEM file."""
        self._needs_tls()
        return str(self._directory / "ca.pem")

    def certificate(self, user: str) -> str:
        """A PEM file with a key and a certificate for `CN=user`, which need not be in `users`."""
        authority = self._needs_tls()
        path = self._directory / f"client-{user}.pem"
        if not path.exists():
            self._write(path.name, authority.issue_client(user, DAYS).together)
        return str(path)

    def broker_certificate(self, hosts: Sequence[str], days: int = DAYS) -> str:
        """PEM, key and certificate, of a broker with other names than the one that is started;
        with 0 days one that has expired."""
        return self._needs_tls().issue_broker(BROKER, hosts, days).together

    # The insides

    def _needs_tls(self) -> Authority:
        if self._authority is None:
            raise ValueError(f"{self.protocol} has no certificates, or its broker never started")
        return self._authority

    def _user(self, name: str | None) -> str:
        if name is None:
            return next(iter(self.users))
        if self.has_login and name not in self.users:
            raise ValueError(f"there is no user {name}; there are {', '.join(self.users)}")
        return name

    def _mechanism(self, name: str | None) -> str:
        if name is not None:
            _check("mechanism", name, self.mechanisms)
        return name or self.mechanisms[0]

    def _broker_module(self, mechanism: str) -> str:
        if mechanism == BEARER:
            return login_module_text(_MODULES[mechanism], {"unsecuredLoginStringClaim_sub": BROKER})
        own = {"username": BROKER, "password": self._broker_password}
        if mechanism == PLAIN:
            own[f"user_{BROKER}"] = self._broker_password
            own |= {f"user_{name}": password for name, password in self.users.items()}
        return login_module_text(_MODULES[mechanism], own)

    def _client_module(self, name: str, mechanism: str) -> str:
        if mechanism == BEARER:
            return login_module_text(_MODULES[mechanism], {"unsecuredLoginStringClaim_sub": name})
        return login_module_text(
            _MODULES[mechanism], {"username": name, "password": self.users[name]}
        )

    def _write(self, name: str, text: str) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._directory / name
        path.touch(mode=0o600)
        path.write_text(text)


def _check(what: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{what} is {value!r}, must be one of {', '.join(allowed)}")
