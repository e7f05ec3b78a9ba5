"""Backup and restore of clusters: batches as they are, moments, and proofs that both are whole."""
