"""Moldau: the event streaming platform for people who live in Python."""

__version__ = "0.1.0"
