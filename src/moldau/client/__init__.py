"""The client library: connections, metadata, producer, consumer and admin."""
