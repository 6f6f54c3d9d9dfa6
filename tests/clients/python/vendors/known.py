"""The list of faults that are known and not mended, `known.txt` beside this: faults in brackets, below each its models, and
behind each model the conversations in which it fails."""

from pathlib import Path

PLACE = Path(__file__).parent / "known.txt"
HEAD = """\
# Faults of the gateway's requests that are known and not mended. A case of these that passes fails the run, and goes:
# UPDATE_KNOWN=1 ./test python    takes out what passes, and never puts anything in.
"""


def read():
    """The fault of each (model, conversation)."""
    known, fault = {}, None
    for line in PLACE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            fault = line.strip("[]")
        elif line and not line.startswith("#"):
            model, conversations = line.split(": ")
            known.update({(model, conversation): fault for conversation in conversations.split(", ")})
    return known


def write(known):
    """Writes the list anew."""
    lines = [HEAD]
    for fault in sorted(set(known.values())):
        lines.append(f"[{fault}]\n")
        for model in sorted({model for (model, _), its in known.items() if its == fault}):
            conversations = sorted(name for (of, name), its in known.items() if (of, its) == (model, fault))
            lines.append(f"{model}: {', '.join(conversations)}\n")
        lines.append("\n")
    PLACE.write_text("".join(lines).rstrip("\n") + "\n", encoding="utf-8")
