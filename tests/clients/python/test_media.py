"""The calls that OpenAI's own tests of its SDK make for images, sound and moderations, before the demo. The client checks every answer
against its types."""

import pytest

PROMPT = "A cute baby sea otter wearing a beret"
FILE = b"Example data"
DRAWING = {
    "background": "transparent",
    "n": 1,
    "output_compression": 100,
    "output_format": "png",
    "partial_images": 1,
    "quality": "high",
    "response_format": "url",
    "size": "1024x1024",
    "user": "user-1234",
}
EDITING = {
    "complexity": "low",
    "input_fidelity": "high",
    "markup": FILE,
    "mask": FILE,
    "safety_identifier": "user-1234",
    "svg": {"model": "x", "reasoning": {"effort": "none"}},
}
CATEGORIES = 13


@pytest.mark.parametrize("more", [{}, {"model": "demo/images", **DRAWING}])
def test_images_with_and_without_all_members(client, more):
    assert client.images.generate(prompt=PROMPT, **more).data
    editing = EDITING if more else {}
    assert client.images.edit(image=FILE, prompt=PROMPT, **more, **editing).data
    assert client.images.edit(image=[FILE, FILE], prompt=PROMPT, **more).data
    names = ("model", "n", "response_format", "size", "user")
    with pytest.warns(DeprecationWarning):
        assert client.images.create_variation(image=FILE, **{name: more[name] for name in names if name in more}).data


@pytest.mark.parametrize("more", [{}, {"model": "demo/images", "partial_images": 2}])
def test_streams_of_images(client, more):
    made = [event.type for event in client.images.generate(prompt=PROMPT, stream=True, **more)]
    assert made == ["image_generation.partial_image"] * more.get("partial_images", 0) + ["image_generation.completed"]
    edited = [event.type for event in client.images.edit(image=FILE, prompt=PROMPT, stream=True, **more)]
    assert edited[-1] == "image_edit.completed"


@pytest.mark.parametrize("more", [{}, {"model": "demo/moderation"}])
def test_a_moderation_has_every_category(client, more):
    result = client.moderations.create(input="A story about violence.", **more).results[0]
    assert result.flagged and result.categories.violence and not result.categories.hate
    assert len(result.category_scores.model_dump()) == CATEGORIES


def test_speech_is_written_down_and_translated(client):
    speech = client.audio.speech.create(
        input="input",
        model="demo/speech",
        voice="ash",
        instructions="instructions",
        response_format="wav",
        speed=0.25,
    ).content
    assert speech.startswith(b"RIFF")
    file = ("speech.wav", speech)
    assert client.audio.transcriptions.create(model="demo/transcribe", file=file).usage.seconds > 0
    whole = client.audio.transcriptions.create(
        model="demo/transcribe",
        file=file,
        include=["logprobs"],
        language="en",
        prompt="prompt",
        response_format="json",
        stream=False,
        temperature=0,
        timestamp_granularities=["word"],
    )
    assert whole.text
    events = list(client.audio.transcriptions.create(model="demo/transcribe", file=file, stream=True))
    assert events[-1].type == "transcript.text.done" and events[-1].text == whole.text
    assert client.audio.translations.create(model="demo/transcribe", file=file, prompt="prompt", temperature=0).text
