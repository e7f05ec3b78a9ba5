"""What the examples share: where the broker is, and a topic to begin with."""

from __future__ import annotations

import os

from moldau import Admin, NewTopic

BOOTSTRAP = os.environ.get("MOLDAU_BOOTSTRAP_SERVER", "localhost:9092")


def fresh_topics(*topics: NewTopic) -> None:
    """Delete these topics if they are there, and make them anew."""
    with Admin(bootstrap_servers=BOOTSTRAP) as admin:
        existing = admin.list_topics()
        admin.delete_topics([topic.name for topic in topics if topic.name in existing])
        admin.create_topics(topics)
