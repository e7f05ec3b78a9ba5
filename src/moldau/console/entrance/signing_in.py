"""Signing in is signing in to Kafka: a link with the user's name and password, if brokers take it.

The password stays in the settings of that link's client, in memory, until the session ends: the
client needs it whenever it opens a connection.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.shared.client_errors import AuthenticationError, ConfigError, KafkaError
from moldau.console.audit_list import AuditList
from moldau.console.cluster_link import ClusterLink
from moldau.console.console_settings import TYPED_MECHANISMS, ConsoleSettings
from moldau.console.entrance.sessions import LoginBrake, Sessions

WAIT_S = 15.0
FIELD_MAX = 1000
NAME_TOLD = 100
"""Of what somebody who may be nobody has typed, so much is written down."""


class SigningIn:
    def __init__(
        self, settings: ConsoleSettings, sessions: Sessions, brake: LoginBrake, audit: AuditList
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._brake = brake
        self._audit = audit

    async def sign_in(self, form: Mapping[str, str], address: str, agent: str) -> ClusterLink | str:
        """The user's link, or why there is none."""
        user, password = form.get("user", "").strip(), form.get("password", "")
        if not user or not password:
            return "Both the name and the password are needed."
        if max(len(user), len(password)) > FIELD_MAX:
            return f"A name or a password may have {FIELD_MAX} characters."
        names = (f"address {address}", f"user {user}")
        wait_s = self._brake.wait_s(*names)
        if wait_s > 0:
            return f"Too many log-ins have failed. Try again in {wait_s:.0f} s."
        # Counted before the brokers are asked: many at once are many tries.
        self._brake.failed(*names)
        link = ClusterLink(self._client_settings(user, password), user)
        try:
            await link.admin.describe_cluster(timeout=WAIT_S)
        except AuthenticationError:
            await link.close()
            await self._tell(user, address, agent, "failed")
            return "The cluster does not accept this name and password."
        except (KafkaError, ConfigError) as fault:
            await link.close()
            return f"The cluster cannot be asked: {fault}"
        self._brake.succeeded(*names)
        await self._tell(user, address, agent, "done")
        return link

    def _client_settings(self, user: str, password: str) -> dict[str, str]:
        mechanism = self._settings.mechanism
        assert mechanism in TYPED_MECHANISMS, mechanism
        return {
            **self._settings.client,
            "bootstrap.servers": self._settings.bootstrap,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }

    async def close_ended(self) -> None:
        """Close the links of sessions that are over."""
        while self._sessions.ended:
            await self._sessions.ended.pop().close()

    async def _tell(self, user: str, address: str, agent: str, outcome: str) -> None:
        await self._audit.write(
            {
                "principal": user[:NAME_TOLD],
                "address": address,
                "agent": agent[:NAME_TOLD],
                "change": "Sign in",
                "command": "",
                "outcome": outcome,
            }
        )
