"""Text that is shown as it is decided: a session with a tokenizer, and a stop string that no reader sees.

streaming_text.py ipc:///run/croupier/control.sock tokenizer.json
"""

import sys

import numpy

import croupier

VOCAB = 1000


def forward(position: int) -> numpy.ndarray:
    """What a model would compute: this one says its ids in their order."""
    return numpy.eye(1, VOCAB, position % VOCAB, dtype=numpy.float32)


endpoint, tokenizer = sys.argv[1:]
session = croupier.Session(
    endpoint=endpoint, name="streaming", vocab=VOCAB, dtype="fp32", tokenizer=tokenizer
)
writer = croupier.Writer(session.segment_path)
params = croupier.Params(temperature=0, max_tokens=64)
session.add(1, [], params=params, stop_strings=["\nUser:", "###"])
shown, stopped = 0, None
while stopped is None:
    step = session.submit([1])
    writer.begin(step)
    writer.enqueue(forward(len(session.output(1))))
    [decision] = session.wait(timeout=10).decisions
    # Whole characters, and nothing that may still become a stop string.
    print(session.text(1, shown).decode(), end="", flush=True)
    shown, stopped = decision.text_bytes, decision.stopped
print(f"\nended by {stopped}")
session.close()
