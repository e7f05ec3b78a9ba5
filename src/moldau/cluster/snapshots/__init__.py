"""Snapshots of a cluster: its brokers take their moments together."""
