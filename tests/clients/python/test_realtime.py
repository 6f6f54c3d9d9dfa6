"""OpenAI's SDK and its realtime sessions, before the demo."""

import base64

import pytest
from openai import OpenAI
from websockets.exceptions import InvalidStatus


def text(words):
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}


def until_done(connection):
    events = []
    for event in connection:
        events.append(event)
        if event.type in ("response.done", "error"):
            return events
    raise AssertionError("the session ended")


def test_a_session_answers_text_and_sound(client):
    with client.realtime.connect(model="demo/realtime") as connection:
        assert connection.recv().type == "session.created"
        connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        assert connection.recv().session.output_modalities == ["text"]
        connection.conversation.item.create(item=text("Hello there"))
        connection.response.create()
        events = until_done(connection)
        said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        assert said == "You said: Hello there"
        usage = events[-1].response.usage
        assert usage.total_tokens == usage.input_tokens + usage.output_tokens
        connection.response.create(response={"output_modalities": ["audio"]})
        events = until_done(connection)
        sound = b"".join(base64.b64decode(event.delta) for event in events if event.type == "response.output_audio.delta")
        assert len(sound) > 1000
        assert events[-1].response.usage.output_token_details.audio_tokens > 0


def test_sound_that_the_client_sends_is_a_turn(client):
    with client.realtime.connect(model="demo/realtime") as connection:
        connection.recv()
        connection.input_audio_buffer.append(audio=base64.b64encode(bytes(4800)).decode())
        connection.input_audio_buffer.commit()
        connection.response.create()
        assert until_done(connection)[-1].response.status == "completed"


def test_a_refused_event_names_the_event(client):
    with client.realtime.connect(model="demo/realtime") as connection:
        connection.recv()
        connection.session.update(session={"type": "realtime", "model": "gpt-realtime"}, event_id="mine")
        event = connection.recv()
        assert (event.type, event.error.code, event.error.event_id) == ("error", "invalid_value", "mine")


@pytest.mark.parametrize(("model", "status"), [("demo/chat", 400), ("demo/none", 404)])
def test_a_refused_handshake_has_its_status(client, model, status):
    with pytest.raises(InvalidStatus) as refusal, client.realtime.connect(model=model):
        pass
    assert refusal.value.response.status_code == status


def test_a_wrong_key_is_refused(base_url):
    client = OpenAI(base_url=base_url, api_key="sk-wrong")
    with pytest.raises(InvalidStatus) as refusal, client.realtime.connect(model="demo/realtime"):
        pass
    assert refusal.value.response.status_code == 401
