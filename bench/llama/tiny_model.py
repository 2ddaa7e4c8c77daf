"""Writes a llama model of random weights as GGUF: so small that its server's time is the samplers' time.

tiny_model.py MODEL.gguf [--vocab 150001]       # needs the packages gguf and numpy
"""

import argparse

import gguf
import numpy

HIDDEN, LAYERS, HEADS, FEED_FORWARD = 64, 1, 2, 128
# Of the logits: about that of a language model's in the middle of a sentence.
DEVIATION = 3.0


def words(rng: numpy.random.Generator, count: int) -> list[str]:
    """Different ones; each character of ASCII is among them, for grammars and DRY's breakers."""
    made = dict.fromkeys(chr(code) for code in range(33, 127))
    letters = numpy.array(list("abcdefghijklmnopqrstuvwxyz"))
    while len(made) < count:
        word = "".join(rng.choice(letters, rng.integers(2, 9)))
        made["\u2581" + word if rng.random() < 0.7 else word] = None
    return list(made)[:count]


def add_tokenizer(writer: gguf.GGUFWriter, rng: numpy.random.Generator, vocab: int) -> None:
    special = ["<unk>", "<s>", "</s>"]
    octets = [f"<0x{octet:02X}>" for octet in range(256)]
    rest = vocab - len(special) - len(octets)
    kind = gguf.TokenType
    writer.add_tokenizer_model("llama")
    writer.add_token_list(special + octets + words(rng, rest))
    writer.add_token_scores([-float(token) for token in range(vocab)])
    writer.add_token_types(
        [kind.UNKNOWN, kind.CONTROL, kind.CONTROL] + [kind.BYTE] * 256 + [kind.NORMAL] * rest
    )
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def add_weights(writer: gguf.GGUFWriter, rng: numpy.random.Generator, vocab: int) -> None:
    def matrix(name: str, outputs: int, inputs: int, deviation: float) -> None:
        values = rng.normal(scale=deviation, size=(outputs, inputs))
        writer.add_tensor(name, values.astype(numpy.float16))

    inner = HIDDEN**-0.5
    matrix("token_embd.weight", vocab, HIDDEN, 1.0)
    matrix("output.weight", vocab, HIDDEN, DEVIATION * inner)
    writer.add_tensor("output_norm.weight", numpy.ones(HIDDEN, numpy.float32))
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{layer}.{name}.weight", HIDDEN, HIDDEN, inner)
        matrix(f"blk.{layer}.ffn_gate.weight", FEED_FORWARD, HIDDEN, inner)
        matrix(f"blk.{layer}.ffn_up.weight", FEED_FORWARD, HIDDEN, inner)
        matrix(f"blk.{layer}.ffn_down.weight", HIDDEN, FEED_FORWARD, FEED_FORWARD**-0.5)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", numpy.ones(HIDDEN, numpy.float32))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("path")
    arguments.add_argument("--vocab", type=int, default=150001)
    asked = arguments.parse_args()
    rng = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(asked.path, "llama")
    writer.add_vocab_size(asked.vocab)
    writer.add_context_length(4096)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    add_tokenizer(writer, rng, asked.vocab)
    add_weights(writer, rng, asked.vocab)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
