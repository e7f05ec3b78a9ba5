"""Mirrors of other clusters."""
