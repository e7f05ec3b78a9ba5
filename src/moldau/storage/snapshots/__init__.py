"""Snapshots: what all logs of a broker held at one moment, as log directories of their own."""
