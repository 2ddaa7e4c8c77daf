"""A worker of the last stage where that is on another host than the scheduler: it has the session's host."""

from __future__ import annotations

from typing import Any

from vllm.distributed import get_pp_group, get_tensor_model_parallel_rank
from vllm.logger import init_logger

from croupier.serving.session_host import SessionHost
from croupier.serving.shared_memory import room_of

from .options import Options, samplers_for

logger = init_logger("vllm.croupier")
FEWER_SEQUENCES = "a smaller --max-num-seqs"


class WithSessionHost:
    """Before a worker of vLLM in the order of bases. Each method is called in all workers, and answers in the
    first one of the last stage."""

    croupier_host: SessionHost | None = None

    def croupier_begin_host(self, root: str, root_key: str, private: bool) -> tuple[str, str] | None:
        if not (get_pp_group().is_last_rank and get_tensor_model_parallel_rank() == 0):
            return None
        if self.croupier_host is None:
            options = Options.of(self.vllm_config) or Options()
            own, alone = samplers_for(options, self.vllm_config)
            self.croupier_host = SessionHost(options, own, alone, logger.warning)
        return self.croupier_host.begin(root, root_key, private)

    def croupier_keep_host(
        self, segment_path: str, sequences: int, cached_tokens: int, longest: int
    ) -> tuple[str, str] | None:
        """What the session takes of this host's shared memory, and what to do if there is too little."""
        if self.croupier_host is None:
            return None
        self.croupier_host.keep(segment_path)
        room = room_of(segment_path, sequences, cached_tokens, longest, FEWER_SEQUENCES)
        return room.text, room.advice

    def croupier_stop_keeping(self) -> None:
        if self.croupier_host is not None:
            self.croupier_host.stop_keeping()

    def shutdown(self) -> Any:
        host, self.croupier_host = self.croupier_host, None
        if host is not None:
            host.close()
        return super().shutdown()
