"""All pages and changes of the console, one row each. The menu lists those with a heading."""

from __future__ import annotations

from moldau.console.page import Change, Page
from moldau.console.views import (
    access,
    audit,
    brokers,
    clients,
    configs,
    groups,
    logs,
    overview,
    pipelines,
    producing,
    quotas,
    rates,
    record_streams,
    records,
    snapshots,
    topic,
    topics,
    transactions,
)

RECORD = "/topics/{topic}/records/{partition}/{offset}"
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
    Page("/snapshots", snapshots.listed, "snapshots.html", "Snapshots", CLUSTER, refreshes=False),
    Page("/logs", logs.listed, "logs.html", "Log files", CLUSTER),
    Page("/logs/{file}", logs.one, "log.html", "Log file"),
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
    Page(
        "/topics/{topic}/records",
        records.records,
        "records.html",
        "Topic",
        tab="Records",
        refreshes=False,
    ),
    Page(f"{RECORD}/raw", records.raw, "", "Bytes"),
    Page(RECORD, records.one, "record.html", "Record", tab="Records", refreshes=False),
    Page("/topics/{topic}/search-stream", record_streams.search, "", "Search"),
    Page("/topics/{topic}/download", record_streams.download, "", "Download"),
    Page(
        "/topics/{topic}/tail",
        record_streams.tail_page,
        "tail.html",
        "Topic",
        tab="Live",
        refreshes=False,
    ),
    Page("/topics/{topic}/tail-stream", record_streams.tail, "", "Live"),
    Page(
        "/topics/{topic}/produce",
        producing.form,
        "produce.html",
        "Topic",
        tab="Send",
        refreshes=False,
    ),
    Page(
        "/topics/{topic}/producers",
        transactions.producers,
        "producers.html",
        "Topic",
        tab="Producers",
    ),
    Page("/groups", groups.listed, "groups.html", "Groups", DATA),
    Page("/groups/{group}", groups.one, "group.html", "Group"),
    Page("/transactions", transactions.listed, "transactions.html", "Transactions", DATA),
    Page("/transactions/{transaction}", transactions.one, "transaction.html", "Transaction"),
    Page(
        "/hanging-transactions",
        transactions.find_hanging,
        "hanging.html",
        "Hanging transactions",
        refreshes=False,
    ),
    Page("/clients", clients.listed, "clients.html", "Clients", DATA),
    Page("/clients/{client}", clients.one, "client.html", "Client"),
    Page("/pipelines", pipelines.listed, "pipelines.html", "Pipelines", DATA),
    Page("/pipelines/{pipeline}", pipelines.one, "pipeline.html", "Pipeline"),
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
    Change("/topics/{topic}/produce", producing.sending, asks=False),
    Change("/topics/{topic}/abort", transactions.abortion),
    Change("/groups/{group}/reset", groups.reset),
    Change("/groups/{group}/delete", groups.deletion),
    Change("/groups/{group}/delete-offsets", groups.offsets_deletion),
    Change("/transactions/{transaction}/end", transactions.termination),
    Change("/snapshots", snapshots.creation),
    Change("/snapshots/{snapshot}/delete", snapshots.deletion),
    Change("/acls", access.acl_creation),
    Change("/acls/remove", access.acl_deletion),
    Change("/users", access.user_change),
    Change("/users/{user}/remove", access.user_deletion),
    Change("/quotas", quotas.change),
)

TOPIC_TABS: tuple[tuple[str, str], ...] = (
    ("Partitions", ""),
    ("Records", "/records"),
    ("Live", "/tail"),
    ("Send", "/produce"),
    ("Settings", "/settings"),
    ("Groups", "/groups"),
    ("Producers", "/producers"),
)
"""What the pages of one topic are called, and what follows the topic's address."""


def menu() -> dict[str, list[Page]]:
    """The pages under their headings, in the order of the rows."""
    found: dict[str, list[Page]] = {}
    for page in PAGES:
        if page.nav:
            found.setdefault(page.nav, []).append(page)
    return found
