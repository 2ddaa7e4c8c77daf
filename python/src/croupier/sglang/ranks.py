"""A rank's plane, when its scheduler has been made: the model is loaded, and its CUDA graphs are captured."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.distributed import get_tp_group

from croupier import Writer

from . import logits, speculation
from .admission import Admission
from .options import Options
from .plane import Plane
from .session import OpenSession
from .stages import EarlierStage, LastStage
from .windows import WindowPlane


def open_plane(scheduler: Any, options: Options) -> Plane | EarlierStage:
    """On all ranks of an engine at once."""
    if not scheduler.pp_group.is_last_rank:
        return EarlierStage()
    runner, group = scheduler.tp_worker.model_runner, get_tp_group()
    vocab = scheduler.model_config.vocab_size
    server_args = scheduler.server_args
    admission = Admission(options, server_args, vocab)
    rank, ranks = group.rank_in_group, group.world_size

    def of_first(value: Any) -> Any:
        """Rank 0's value, on all ranks."""
        return group.broadcast_object(value, src=0) if ranks > 1 else value

    session = None
    if rank == 0:
        geometry = geometry_of(runner, vocab, ranks)
        replica = scheduler.ps.dp_rank or 0
        session = OpenSession(
            scheduler, options, admission, geometry, replica, speculation.window_of(server_args)
        )
    try:
        path = session.session.segment_path if session is not None else None
        path = of_first(path)
        device = torch.device(runner.device)
        if device.type == "cuda":
            device = torch.device("cuda", runner.gpu_id)
        writer = Writer(path, rank=rank, device=-1 if device.type == "cpu" else device.index)
        if server_args.speculative_algorithm is None:
            make = Plane if server_args.pp_size == 1 else LastStage
            return make(admission, writer, session, device, options, of_first)
        is_chain = speculation.is_chain(server_args)
        return WindowPlane(
            admission, writer, session, device, options, of_first, vocab=vocab, is_chain=is_chain
        )
    except BaseException:
        if session is not None:
            session.close()
        raise


def geometry_of(runner: Any, vocab: int, ranks: int) -> dict[str, Any]:
    """The session's shards."""
    found = {"vocab": vocab, "tp": ranks, "dtype": logits.type_of(runner)}
    if ranks > 1:
        found["padded_vocab"] = ranks * logits.ids_of(runner, vocab, ranks)
    return found
