"""How the leader of a group shares partitions out."""
