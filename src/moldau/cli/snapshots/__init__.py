"""Snapshots, and forks that begin as one."""
