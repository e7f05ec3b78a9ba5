"""Backup and restore, and the proof that a backup is whole."""
