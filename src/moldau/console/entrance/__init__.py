"""What stands before every page: connections, host names, forms, sessions, log-ins."""
