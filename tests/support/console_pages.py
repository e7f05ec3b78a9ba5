"""The address of every page of the console in `console_world`, by a short name."""

from __future__ import annotations

from moldau.console.rendering import path_word
from tests.support.console_world import HOSTILE, TRANSACTION


def pages() -> dict[str, str]:
    return {
        "overview": "/",
        "brokers": "/brokers",
        "broker": "/brokers/0",
        "broker-settings": "/brokers/0/settings",
        "charts": "/charts",
        "settings": "/settings",
        "snapshots": "/snapshots",
        "logs": "/logs",
        "log": "/logs/server.log",
        "topics": "/topics",
        "new-topic": "/new-topic",
        "topic": "/topics/orders",
        "topic-settings": "/topics/orders/settings",
        "topic-groups": "/topics/orders/groups",
        "records": "/topics/orders/records",
        "record": "/topics/orders/records/0/1",
        "tail": "/topics/orders/tail",
        "produce": "/topics/orders/produce",
        "producers": "/topics/payments/producers",
        "groups": "/groups",
        "group": "/groups/shipping",
        "group-hostile": f"/groups/{path_word(HOSTILE)}",
        "transactions": "/transactions",
        "transaction": f"/transactions/{path_word(TRANSACTION)}",
        "hanging": "/hanging-transactions?look=yes",
        "clients": "/clients",
        "pipelines": "/pipelines",
        "pipeline": "/pipelines/wordcount",
        "acls": "/acls",
        "users": "/users",
        "quotas": "/quotas",
        "audit": "/audit",
        "missing": "/topics/not-there",
    }
