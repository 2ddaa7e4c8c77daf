"""Arrays that have no buffer: by DLPack, of types and on devices that numpy does not know."""

import ctypes

import numpy as np
import pytest

import croupier
from support import PATIENCE, VOCAB, Daemon, Engine, bits_of_bf16, row

FLOAT, BFLOAT = 2, 4
HOST, CUDA, PINNED, OPENCL = 1, 2, 3, 4
GREEDY = croupier.Params(temperature=0)


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class Producer:
    """Memory of numpy's under another name."""

    def __init__(self, array: np.ndarray, code: int, device_type: int = HOST, strides: bool = True) -> None:
        self.array, self.device_type = array, device_type
        self.asked: list[dict] = []
        longs = ctypes.c_int64 * array.ndim
        self.shape = longs(*array.shape)
        self.steps = longs(*(step // array.itemsize for step in array.strides)) if strides else None
        self.tensor = Tensor(
            array.ctypes.data, device_type, 0, array.ndim, code, array.itemsize * 8, 1, self.shape, self.steps
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, 0

    def __dlpack__(self, **asked: object) -> object:
        self.asked.append(asked)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


@pytest.mark.parametrize("device", [HOST, PINNED])
@pytest.mark.parametrize("strides", [True, False])
def test_bfloat16_is_read_as_its_bits_are(device: int, strides: bool) -> None:
    bits = bits_of_bf16(row(1, 0))[0]
    params = croupier.Params(seed=3, top_p=0.9)
    given = Producer(bits, BFLOAT, device, strides)
    assert croupier.decide(given, params=params).token == croupier.decide(bits, params=params).token


def test_rows_by_dlpack_may_lie_apart(daemon: Daemon, name: str) -> None:
    with daemon.open(name, dtype="bf16") as session:
        engine = Engine(session, "bf16")
        for uid in (1, 2):
            engine.add(uid, params=GREEDY)
        assert engine.writers[0].begin(session.submit([1, 2]))
        wide = np.zeros((2, VOCAB + 8), np.uint16)
        wide[:, :VOCAB] = [bits_of_bf16(row(uid, 0))[0] for uid in (1, 2)]
        engine.writers[0].enqueue(Producer(wide[:, :VOCAB], BFLOAT))
        assert session.wait(PATIENCE).tokens.tolist() == [int(row(uid, 0).argmax()) for uid in (1, 2)]


def test_a_tensor_of_a_gpu_is_not_read_by_the_host(daemon: Daemon, name: str) -> None:
    with daemon.open(name) as session:
        engine = Engine(session)
        engine.add(1)
        assert engine.writers[0].begin(session.submit([1]))
        given = Producer(row(1, 0)[None], FLOAT, CUDA)
        with pytest.raises(croupier.Error, match="CUDA device 0; this writer's device is the host"):
            engine.writers[0].enqueue(given)
        # The producer is to wait for nothing: the caller's stream orders the work.
        assert given.asked == [{"stream": -1}]
        with pytest.raises(croupier.Error, match="a device of DLPack's type 4"):
            engine.writers[0].enqueue(Producer(row(1, 0)[None], FLOAT, OPENCL))
    with pytest.raises(croupier.Error, match="is CUDA device 0; allowed: the host's memory"):
        croupier.decide(Producer(row(1, 0), FLOAT, CUDA))


def test_a_producer_that_fails_is_quoted() -> None:
    class Failing(Producer):
        def __dlpack__(self, **_asked: object) -> object:
            raise BufferError("requires grad")

    with pytest.raises(croupier.Error, match="logits gives no array by DLPack: .*requires grad"):
        croupier.decide(Failing(row(1, 0), FLOAT))
