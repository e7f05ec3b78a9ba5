"""Quotas as pure rules: whom they are for, which one holds, what is used up, how long to wait."""
