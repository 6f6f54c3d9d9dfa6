"""Rules of the gateway's requests that a JSON Schema cannot express: each case is changed until it follows them."""

from schemathesis import GenerationMode, hook

CHAT, EMBED, RERANK, MODERATION = "demo/chat", "demo/embed", "demo/rerank", "demo/moderation"
IMAGES, SPEECH, TRANSCRIBE = "demo/images", "demo/speech", "demo/transcribe"
BARE = ("chat", "embed", "rerank", "moderation", "images", "speech", "transcribe", "realtime")

FORMS = ("/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits", "/v1/images/variations")

PAIRS = (("text_1", "text_2"), ("queries", "documents"), ("queries", "items"), ("data_1", "data_2"))


def is_valid(case):
    return case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE


def plain(value):
    """JSON Schema accepts 1.0 as an integer; the gateway accepts integers without a fraction only."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


def demo_model(path, body, name):
    """The other models of the demo provider fail on purpose, and each is for one kind of request."""
    bare = str(name).removeprefix("demo/").split(":")[0]
    if not str(name).startswith("demo/") and bare not in BARE and not bare.startswith("error-"):
        return name
    if path in ("/v1/rerank", "/v1/score"):
        return RERANK
    if path.startswith("/v1/images/"):
        return IMAGES
    if path == "/v1/audio/speech":
        return SPEECH
    if path.startswith("/v1/audio/"):
        return TRANSCRIBE
    if path == "/v1/moderations":
        return MODERATION
    return EMBED if "input" in body and "messages" not in body and "prompt" not in body else CHAT


def said(message):
    """The demo models read text."""
    content = message.get("content")
    if isinstance(content, list):
        parts = [part for part in content if part.get("type") not in ("image_url", "input_audio", "file")]
        return {**message, "content": parts or "x"}
    return message


def generation(path, body):
    """Rules that a schema cannot say: a choice names a tool that is there. No member is left out: the demo takes all."""
    tools = body.get("tools") or []
    choice = body.get("tool_choice")
    names = [tool["function"]["name"] for tool in tools if tool.get("type") == "function"]
    if isinstance(choice, dict) and (choice.get("function") or {}).get("name") not in names:
        body["tool_choice"] = None
    if choice == "required" and not tools:
        body["tool_choice"] = None
    if isinstance(body.get("messages"), list):
        body["messages"] = [said(message) for message in body["messages"]]
    if isinstance(body.get("dimensions"), int):
        body["dimensions"] = min(body["dimensions"], 16384)


def form(path, body):
    """Fields of a form that hold JSON, files that are not empty, and formats that have no stream."""
    for name in ("routing", "chunking_strategy"):
        body.pop(name, None)
    for name in ("file", "image", "mask"):
        if name in body:
            body[name] = b"x"
    if body.get("response_format") in ("srt", "vtt"):
        body.pop("stream", None)


def pairs(body):
    """One text for all pairs, or as many on either side, and one way to name them."""
    named = [names for names in PAIRS if all(body.get(name) is not None for name in names)]
    for name in {name for names in PAIRS for name in names} - set(named[0]):
        body.pop(name, None)
    first, second = named[0]
    if isinstance(body[first], list) and (not isinstance(body[second], list) or len(body[first]) != len(body[second])):
        body[first] = body[first][0]


def key(method, body):
    """Times that are over, digits beyond the ninth, and a period whose budget may be in the store."""
    expires = body.get("expires_at")
    if isinstance(expires, str):
        body["expires_at"] = "2099-01-01T00:00:00Z"
    if isinstance(body.get("budget_usd"), (int, float)):
        body["budget_usd"] = f"{body['budget_usd']:.9f}"
    if method == "PATCH" and body.get("budget_usd") is None:
        body.pop("budget_period", None)
    if body.get("team") is not None:
        body["team"] = None


def query(path, members):
    """Parameters that exclude each other, or must differ."""
    if "after" in members:
        members.pop("offset", None)
        members["after"] = CHAT
    if "pageToken" in members:
        members["pageToken"] = CHAT
    if path == "/admin/v1/requests":
        members.pop("after", None)
    if path == "/admin/v1/keys":
        members.pop("after", None)
    if "model" in members and path == "/admin/v1/cache":
        members.pop("key", None)
    if "since" in members:
        members.pop("until", None)
    models = str(members.get("models", ""))
    if path.endswith("/compare") and len(set(models.split(","))) < len(models.split(",")):
        members["models"] = "demo/chat,demo/embed"


@hook
def before_call(context, case, kwargs):
    path, body = case.operation.path, case.body
    if path.startswith("/admin/v1/config/") and case.method.upper() != "GET":
        # A change in force would be the configuration of all later cases.
        case.query = {**(case.query or {}), "dry_run": "true"}
    if path.startswith("/v1beta/models/{model_id}"):
        # The path of Google's API names the model.
        case.path_parameters = {**(case.path_parameters or {}), "model_id": EMBED if "mbed" in path else CHAT}
    if isinstance(body, dict):
        body = dict(body)
        if path.endswith("/drill") and "only" in body:
            # A drill takes seconds.
            body["only"] = ["demo/nothing"]
        if path.endswith("/probe"):
            body["dry_run"] = True
        if "model" in body:
            body["model"] = demo_model(path, body, body["model"])
        if is_valid(case):
            body = plain(body)
            if path.startswith("/v1/") or path.endswith("/explain"):
                generation(path, body)
            if path in FORMS:
                form(path, body)
            if path == "/v1/score":
                pairs(body)
            if path.startswith("/admin/v1/keys") or path.startswith("/admin/v1/teams"):
                key(case.method.upper(), body)
        case.body = body
    if case.query and is_valid(case):
        members = dict(case.query)
        query(path, members)
        case.query = members
