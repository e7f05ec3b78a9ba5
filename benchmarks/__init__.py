"""Moldau beside Apache Kafka on one machine: `python -m benchmarks` prints ratios."""
