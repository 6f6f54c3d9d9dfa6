"""The vendors' own packages as the other end of the gateway.

Every dialect has a module with a class. `read` takes a request that the gateway wrote and raises `Invalid` with the words
of the vendor's package where the package refuses it. `write` answers with bytes that the vendor's response types wrote.
`refuse` is the vendor's error of status 400.
"""

import re

from .anthropic_ import Anthropic, ClaudeOnVertex
from .bedrock_ import Bedrock
from .cohere_ import Cohere
from .common import Invalid
from .google_ import Google, Vertex
from .mistral_ import Mistral
from .ollama_ import Ollama
from .openai_ import Azure, OpenAi
from .others import OTHERS

VENDORS = [
    Anthropic(),
    ClaudeOnVertex(),
    Google(),
    Vertex(),
    Bedrock(),
    Cohere(),
    Mistral(),
    Ollama(),
    Azure(),
    OpenAi(),
]
# The first words of every conversation name its case, so that a request is known by its text in every dialect.
CASE = re.compile(rb"case-\d+-(?:plain|streamed)")


class Recorder:
    """Answers an upstream server's requests, and keeps what came and what was wrong with it, by case."""

    def __init__(self):
        self.requests = {}
        self.faults = {}

    def __call__(self, request):
        case = CASE.search(request.body)
        case = case.group().decode() if case else "no case"
        self.requests.setdefault(case, []).append(request)
        vendor = next((vendor for vendor in [*OTHERS, *VENDORS] if vendor.takes(request.path)), None)
        try:
            if vendor is None:
                raise AssertionError(f"no vendor has the path {request.path}")
            asked = vendor.read(request)
        except Invalid as fault:
            self.faults.setdefault(case, []).append(f"{vendor.api} refuses the request: {fault}")
            return vendor.refuse(str(fault))
        except Exception as fault:
            self.faults.setdefault(case, []).append(f"the check failed: {fault!r}")
            raise
        return vendor.write(asked)
