"""Restores: partitions appended as a follower would, that become topics all at once."""
