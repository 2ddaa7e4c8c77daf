"""A `sampler=` for mlx_lm (generate, stream_generate, generate_step) that decides with croupier.decide().

mlx_sampler.py MODEL "The prompt"
"""

import sys

import mlx.core as mx

import croupier


class Sampler:
    """Of one sequence. mlx_lm calls it once a token, with the log-probs of the next one: (1, vocab)."""

    def __init__(self, prompt: list[int], params: croupier.Params, **request: object) -> None:
        self.prompt, self.output, self.params, self.request = prompt, [], params, request
        self.feedback = (0.0, 0.0)

    def __call__(self, logprobs: mx.array) -> mx.array:
        # Log-probs are below 0, so a repetition_penalty multiplies all; other controls see no difference.
        row = memoryview(logprobs[0].astype(mx.float32))
        answer = croupier.decide(
            row, self.prompt, self.output, params=self.params, feedback=self.feedback, **self.request
        )
        if answer.error:
            raise ValueError(f"token {len(self.output)}: {answer.error_text}")
        self.output.append(answer.token)
        self.feedback = answer.feedback
        return mx.array([answer.token])


if __name__ == "__main__":
    import mlx_lm

    model, tokenizer = mlx_lm.load(sys.argv[1])
    prompt = tokenizer.encode(sys.argv[2])
    sampler = Sampler(prompt, croupier.Params(seed=7, temperature=0.8, min_p=0.05, dry_multiplier=0.8))
    print(mlx_lm.generate(model, tokenizer, prompt, max_tokens=64, sampler=sampler))
