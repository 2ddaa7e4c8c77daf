"""Generates with a Hugging Face model by croupier.decide(): no generate(), no LogitsProcessor.

transformers_loop.py MODEL "The prompt"
"""

import sys

import torch
import transformers

import croupier


def generate(
    model: transformers.PreTrainedModel, prompt: list[int], params: croupier.Params, **request: object
) -> list[int]:
    """Up to params.max_tokens ids. `request` has what else decide() takes: stop_ids, bias, bad_words, …"""
    fed, cache, output, feedback = prompt, None, [], (0.0, 0.0)
    while True:
        with torch.inference_mode():
            said = model(torch.tensor([fed], device=model.device), past_key_values=cache, use_cache=True)
        row = said.logits[0, -1].contiguous().cpu()  # in the model's own type: bf16 is decided as bf16
        answer = croupier.decide(row, prompt, output, params=params, feedback=feedback, **request)
        if answer.error:
            raise ValueError(f"token {len(output)}: {answer.error_text}")
        output.append(answer.token)
        if answer.stopped:
            return output
        fed, cache, feedback = [answer.token], said.past_key_values, answer.feedback


if __name__ == "__main__":
    name, text = sys.argv[1:]
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    model = transformers.AutoModelForCausalLM.from_pretrained(name, dtype="auto").eval()
    params = croupier.Params(seed=7, temperature=0.8, min_p=0.05, dry_multiplier=0.8, max_tokens=64)
    ids = generate(model, tokenizer.encode(text), params, stop_ids=[tokenizer.eos_token_id])
    print(tokenizer.decode(ids, skip_special_tokens=True))
