"""The server side of ndwire: responses whose arrays travel as data-first envelopes to whoever asks for them."""

from ndwire_asgi._negotiation import prefers_envelope
from ndwire_asgi._response import NDArrayResponse

__all__ = ["NDArrayResponse", "prefers_envelope"]
