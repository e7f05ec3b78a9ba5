"""What the machine of the console knows beside the cluster: log files, checkpoints, metrics.

The operator names these places when he starts the console; no page takes one. Where users sign in,
they are for those who may DESCRIBE the cluster: Kafka lets the same people read its access lists.
"""
