"""Beam searches of a small random model: Hugging Face's generate() and ours. Needs torch and transformers."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import croupier  # noqa: E402
from small_llama import small_llama  # noqa: E402
from support import PATIENCE, Daemon  # noqa: E402

VOCAB = 64
BEAMS = 4
PROMPTS = 200
STOP_IDS = [2, 9, 17, 30, 41, 52]


def cases() -> list[dict]:
    varied = itertools.product(
        [-1.0, 0.0, 0.6, 1.0, 2.0],
        [False, True, "never"],
        [STOP_IDS, STOP_IDS, STOP_IDS[:1], []],
        [0, 4],
        [12, 20],
    )
    names = ("length_penalty", "early_stopping", "stop_ids", "min_tokens", "max_tokens")
    return [dict(zip(names, each, strict=True)) for each in varied]


def generated(model: "transformers.PreTrainedModel", prompt: list[int], case: dict) -> list[tuple]:
    with torch.no_grad():
        output = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            num_beams=BEAMS,
            num_return_sequences=BEAMS,
            do_sample=False,
            max_new_tokens=case["max_tokens"],
            min_new_tokens=case["min_tokens"] or None,
            length_penalty=case["length_penalty"],
            early_stopping=case["early_stopping"],
            eos_token_id=case["stop_ids"] or None,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
            output_logits=True,
        )
    # What beam_indices has no beam for is padding.
    lengths = (output.beam_indices >= 0).sum(-1).tolist()
    rows = output.sequences[:, len(prompt) :].tolist()
    tokens = [row[:length] for row, length in zip(rows, lengths, strict=True)]
    return list(zip(tokens, output.sequences_scores.tolist(), strict=True))


def searched(
    session: croupier.Session, writer: croupier.Writer, model: object, prompt: list[int], case: dict
) -> list[tuple]:
    beams = croupier.Beams(BEAMS, **case)
    uids = list(range(1, BEAMS + 1))
    session.add(uids[0], prompt, params=croupier.Params(temperature=0, logprobs=beams.candidates))
    live = 1
    while not beams.is_over:
        step = session.submit(uids[:live])
        tokens = torch.tensor([prompt + session.output(uid) for uid in uids[:live]])
        with torch.no_grad():
            logits = model(tokens).logits[:, -1].float()
        assert writer.begin(step)
        writer.enqueue(logits)
        decided = session.wait(PATIENCE)
        live = len(beams.step([each.best for each in decided.decisions]))
        uids = session.fork_beams(beams, uids)
    return [(each.tokens, each.score) for each in beams.hypotheses]


def test_searches_find_what_generate_finds(daemon: Daemon, name: str) -> None:
    torch.set_num_threads(1)
    # In double: the logits, as float32, do not depend on how a pass is batched.
    model = small_llama(VOCAB).double()
    random = np.random.default_rng(11)
    varied = cases()
    random.shuffle(varied)
    stopped = early = 0
    with (
        daemon.open(name, vocab=VOCAB, tile=1, max_logprobs=10) as session,
        croupier.Writer(session.segment_path) as writer,
    ):
        for number in range(PROMPTS):
            case = varied[number % len(varied)]
            prompt = random.integers(3, VOCAB, random.integers(1, 12)).tolist()
            expected = generated(model, prompt, case)
            found = searched(session, writer, model, prompt, case)
            assert [tokens for tokens, _ in found] == [tokens for tokens, _ in expected], (number, case)
            # generate() sums in float32.
            scores = [score for _, score in expected]
            assert [score for _, score in found] == pytest.approx(scores, rel=1e-5, abs=1e-5)
            ends = [tokens[-1] in case["stop_ids"] for tokens, _ in found]
            stopped += sum(ends)
            early += all(ends)
        assert session.list() == []
    # Of 800 hypotheses, many end by themselves, and whole searches before max_tokens.
    assert stopped > PROMPTS
    assert early > PROMPTS / 10
