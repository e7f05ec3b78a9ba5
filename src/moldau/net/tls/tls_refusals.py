"""What a TLS handshake failed of, for people."""

from __future__ import annotations


def tls_refusal(fault: Exception | None) -> str | None:
    """Why a TLS handshake failed for good; None if it only broke off, or was none."""
    import ssl

    if not isinstance(fault, ssl.SSLError):
        return None
    if isinstance(fault, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError):
        return None
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"the broker's certificate is not accepted: {fault.verify_message}"
    reason = (fault.reason or str(fault)).replace("_", " ").lower()
    if reason == "wrong version number" or reason == "record layer failure":
        return f"the broker does not speak TLS there ({reason})"
    return reason
