"""The part of the `openai` package that the documents' examples use, without an installation."""

import json
import urllib.request
from types import SimpleNamespace


class OpenAI:
    def __init__(self, base_url, api_key):
        self._base_url, self._api_key = base_url, api_key
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._create))

    def _create(self, extra_body=None, **body):
        request = urllib.request.Request(
            self._base_url + "/chat/completions",
            data=json.dumps({**body, **(extra_body or {})}).encode(),
            headers={"authorization": "Bearer " + self._api_key, "content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read(), object_hook=lambda members: SimpleNamespace(**members))
