"""SaslHandshake, SaslAuthenticate where they are out of place: without a log-in, or after it.

Log-ins themselves never get here: the listener's entrance answers them.
"""

from __future__ import annotations

from moldau.handlers.request_context import RequestContext
from moldau.handlers.services import Services
from moldau.model.errors import Error
from moldau.security.sasl.sasl_connection import ALREADY_LOGGED_IN
from moldau.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


async def sasl_handshake(
    request: SaslHandshakeRequest, ctx: RequestContext, on: Services
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=Error.ILLEGAL_SASL_STATE)


async def sasl_authenticate(
    request: SaslAuthenticateRequest, ctx: RequestContext, on: Services
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=Error.ILLEGAL_SASL_STATE, error_message=ALREADY_LOGGED_IN
    )
