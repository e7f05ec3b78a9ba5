"""Holding back what leaves, while brokers take a moment together."""
