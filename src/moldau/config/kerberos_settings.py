"""Settings of log-ins by Kerberos (GSSAPI): the same for clients and for brokers."""

from __future__ import annotations

from moldau.config.setting_definition import MINUTE, Long, Scope, Settings, setting

OWN_RENEWAL = "the Kerberos library gets tickets by the key table, and others before they end"

# Rows stay compact, so that the table can be read as one.
# fmt: off


class KerberosSettings(Settings):
    sasl_kerberos_service_name: str | None = setting(
        "sasl.kerberos.service.name", scope=Scope.PER_BROKER,
        doc="Kerberos name of the brokers, the part before the host; or serviceName in the log-in "
            "module.")
    sasl_kerberos_kinit_cmd: str = setting(
        "sasl.kerberos.kinit.cmd", "/usr/bin/kinit", scope=Scope.PER_BROKER, no_effect=OWN_RENEWAL,
        doc="Path of kinit.")
    sasl_kerberos_min_time_before_relogin: Long = setting(
        "sasl.kerberos.min.time.before.relogin", 1 * MINUTE, scope=Scope.PER_BROKER,
        no_effect=OWN_RENEWAL,
        doc="Shortest time between two log-ins.")
    sasl_kerberos_ticket_renew_jitter: float = setting(
        "sasl.kerberos.ticket.renew.jitter", 0.05, scope=Scope.PER_BROKER, no_effect=OWN_RENEWAL,
        doc="Random share of the renewal time.")
    sasl_kerberos_ticket_renew_window_factor: float = setting(
        "sasl.kerberos.ticket.renew.window.factor", 0.8, scope=Scope.PER_BROKER,
        no_effect=OWN_RENEWAL,
        doc="Share of a ticket's life after which it is renewed.")
