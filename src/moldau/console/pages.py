"""All pages and changes of the console, one row each. The menu lists those with a heading."""

from __future__ import annotations

from moldau.console.page import Change, Page
from moldau.console.views import (
    access,
    audit,
    brokers,
    configs,
    overview,
    quotas,
    rates,
    topic,
    topics,
)

CLUSTER, DATA, ACCESS, CONSOLE = "Cluster", "Data", "Access", "Console"

PAGES: tuple[Page, ...] = (
    Page("/", overview.overview, "overview.html", "Overview", CLUSTER),
    Page("/brokers", brokers.listed, "brokers.html", "Brokers", CLUSTER),
    Page("/brokers/{broker}", brokers.one, "broker.html", "Broker", tab="State"),
    Page(
        "/brokers/{broker}/settings",
        configs.of_broker,
        "broker_settings.html",
        "Broker",
        tab="Settings",
        refreshes=False,
    ),
    Page("/charts", rates.charts, "charts.html", "Charts", CLUSTER),
    Page("/settings", configs.of_cluster, "settings.html", "Settings", CLUSTER, refreshes=False),
    Page("/topics", topics.listed, "topics.html", "Topics", DATA),
    Page("/new-topic", topics.new_topic, "new_topic.html", "New topic", refreshes=False),
    Page("/topics/{topic}", topic.partitions, "topic.html", "Topic", tab="Partitions"),
    Page(
        "/topics/{topic}/settings",
        configs.of_topic,
        "topic_settings.html",
        "Topic",
        tab="Settings",
        refreshes=False,
    ),
    Page("/topics/{topic}/groups", topic.groups, "topic_groups.html", "Topic", tab="Groups"),
    Page("/acls", access.acls, "acls.html", "Access lists", ACCESS, refreshes=False),
    Page("/users", access.users, "users.html", "Users", ACCESS, refreshes=False),
    Page("/quotas", quotas.listed, "quotas.html", "Quotas", ACCESS, refreshes=False),
    Page("/audit", audit.listed, "audit.html", "Changes", CONSOLE),
)

CHANGES: tuple[Change, ...] = (
    Change("/new-topic", topics.creation),
    Change("/topics/{topic}/delete", topics.deletion),
    Change("/topics/{topic}/partitions", topics.growth),
    Change("/topics/{topic}/settings", configs.change_of_topic),
    Change("/brokers/{broker}/settings", configs.change_of_broker),
    Change("/settings", configs.change_of_cluster),
    Change("/acls", access.acl_creation),
    Change("/acls/remove", access.acl_deletion),
    Change("/users", access.user_change),
    Change("/users/{user}/remove", access.user_deletion),
    Change("/quotas", quotas.change),
)

TOPIC_TABS: tuple[tuple[str, str], ...] = (
    ("Partitions", ""),
    ("Settings", "/settings"),
    ("Groups", "/groups"),
)
"""What the pages of one topic are called, and what follows the topic's address."""


def menu() -> dict[str, list[Page]]:
    """The pages under their headings, in the order of the rows."""
    found: dict[str, list[Page]] = {}
    for page in PAGES:
        if page.nav:
            found.setdefault(page.nav, []).append(page)
    return found
