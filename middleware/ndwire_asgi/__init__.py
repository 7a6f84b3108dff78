"""The server side of ndwire: arrays travel as data-first envelopes to whoever asks for them.

``NDArrayMiddleware`` rewrites the JSON of any ASGI app; ``NDArrayResponse`` is for apps that hold arrays.
"""

from ndwire_asgi._conversion import Rewritten
from ndwire_asgi._middleware import Fields, NDArrayMiddleware
from ndwire_asgi._negotiation import When, prefers_envelope
from ndwire_asgi._response import NDArrayResponse

__all__ = ["Fields", "NDArrayMiddleware", "NDArrayResponse", "Rewritten", "When", "prefers_envelope"]
