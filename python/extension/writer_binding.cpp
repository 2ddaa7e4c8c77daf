// The class of writers, and what Python says of it.
#include <nanobind/stl/optional.h>

#include "python/extension/bindings.h"
#include "python/extension/writer.h"
#include "python/extension/writer_info.h"

namespace croupier::python {

void bind_writer(nb::module_& module) {
    bind_writer_info(module);
    nb::class_<Writer>(module, "Writer")
        .def(nb::init<nb::handle, nb::handle, nb::handle, nb::handle, nb::handle, nb::handle>(),
             nb::arg("segment_path").none(), nb::kw_only(), nb::arg("rank").none() = 0,
             nb::arg("device").none() = -1, nb::arg("path").none() = "auto",
             nb::arg("store_blocks").none() = 0, nb::arg("rows").none() = "auto",
             nb::sig("def __init__(self, segment_path: str, *, rank: int = 0, device: int = -1, path: str = "
                     "'auto', "
                     "store_blocks: int = 0, rows: str = 'auto') -> None"))
        .def_prop_ro("info", &Writer::info, "its session and its part of it")
        .def_prop_ro("state", &Writer::state, "how far it is")
        .def("wait_step", &Writer::wait_step, nb::arg("timeout").none() = nb::none(),
             nb::sig("def wait_step(self, timeout: float | None = None) -> WantedStep | None"),
             "The oldest step in flight that wants this rank's logits and is not begun; None where there is "
             "none within `timeout` seconds. Fails with session_closed once the session was closed, and "
             "with stale_epoch once it was taken over; while its client and daemon are both away it waits.")
        .def("begin", &Writer::begin, nb::arg("step").none(), nb::sig("def begin(self, step: int) -> bool"),
             "Queues the step for the next enqueue(). False: it is not submitted yet, or all slots are begun "
             "and "
             "not finished.")
        .def("enqueue", &Writer::enqueue, nb::arg("logits").none(), nb::arg("stream").none() = nb::none(),
             nb::kw_only(), nb::arg("row_of").none() = nb::none(), nb::arg("inputs").none() = nb::none(),
             nb::arg("parents").none() = nb::none(), nb::arg("positions").none() = nb::none(),
             nb::sig("def enqueue(self, logits: object, stream: int | None = None, *, row_of: object | None "
                     "= None, inputs: object | None = None, parents: object | None = None, "
                     "positions: object | None = None) -> None"),
             "Lays the next begun step: (columns, ids) in the session's dtype, by the buffer protocol or "
             "DLPack; "
             "bf16 also as uint16. Rows need not follow each other. On a GPU the work is enqueued on "
             "`stream`, which must be named there: the one on which the logits are written, 0 for CUDA's "
             "default stream. Rows beyond the step's columns are not read there. On "
             "a host there is a row for each column of the step, and no more. Of a step with windows, int32 "
             "arrays on the same device with an entry a column: inputs has the token that each row was "
             "computed from, parents the column that it follows (None: the one before), row_of the column's "
             "row among the logits (None: its own number; -1: it has none), positions where the token that "
             "was fed stands in prompt and output together (None: as the step's record guesses it; a host's "
             "writer does not read them).")
        .def("enqueue_head", &Writer::enqueue_head, nb::arg("hidden").none(), nb::arg("weight").none(),
             nb::arg("logits").none(), nb::arg("stream").none() = nb::none(), nb::kw_only(),
             nb::arg("row_of").none() = nb::none(), nb::arg("inputs").none() = nb::none(),
             nb::arg("parents").none() = nb::none(), nb::arg("positions").none() = nb::none(),
             nb::sig("def enqueue_head(self, hidden: object, weight: object, logits: object, stream: int | "
                     "None = None, *, row_of: object | None = None, inputs: object | None = None, "
                     "parents: object | None = None, positions: object | None = None) -> None"),
             "The same of logits that the writer computes: hidden, (columns, elements), times the transpose "
             "of weight, (ids, elements), as croupier_writer_enqueue_head() of croupier/writer.h does, into "
             "logits, (columns, info.head_row_elements): there the rank's first id stands at place "
             "info.first_id % 64, and logits that cannot win may be left out. It is for lean steps on a GPU "
             "of compute capability 9.0. row_of counts rows of hidden. Where rows are lent no later work "
             "writes over any of the three until the step is decided.")
        .def("enqueue_pointer", &Writer::enqueue_pointer, nb::arg("pointer").none(),
             nb::arg("row_stride").none(), nb::arg("stream").none() = nb::none(), nb::kw_only(),
             nb::arg("row_of").none() = nb::none(), nb::arg("inputs").none() = nb::none(),
             nb::arg("parents").none() = nb::none(), nb::arg("positions").none() = nb::none(),
             nb::sig("def enqueue_pointer(self, pointer: int, row_stride: int, stream: int | None = None, *, "
                     "row_of: int | None = None, inputs: int | None = None, parents: int | None = None, "
                     "positions: int | None = None) -> None"),
             "The same of rows and arrays at addresses, rows so many elements apart; nothing of it is "
             "checked.")
        .def("wait_tokens", &Writer::wait_tokens, nb::arg("step").none(),
             nb::arg("timeout").none() = nb::none(),
             nb::sig("def wait_tokens(self, step: int, timeout: float | None = None) -> bool"),
             "Whether every column of a step that this writer began is decided within `timeout` seconds. "
             "Fails "
             "as wait_step() does once the session has ended.")
        .def(
            "enqueue_tokens", &Writer::enqueue_tokens, nb::arg("step").none(), nb::arg("tokens").none(),
            nb::arg("stream").none() = nb::none(),
            nb::sig("def enqueue_tokens(self, step: int, tokens: object, stream: int | None = None) -> None"),
            "Sends the tokens of a step that wait_tokens() saw decided to an int32 array on the writer's "
            "device; "
            "-1 where a decision is an error.")
        .def("enqueue_tokens_pointer", &Writer::enqueue_tokens_pointer, nb::arg("step").none(),
             nb::arg("pointer").none(), nb::arg("stream").none() = nb::none(),
             nb::sig("def enqueue_tokens_pointer(self, step: int, pointer: int, stream: int | None = None) "
                     "-> None"),
             "The same to an address; nothing of it is checked.")
        .def("enqueue_awaited_tokens", &Writer::enqueue_awaited_tokens, nb::arg("step").none(),
             nb::arg("tokens").none(), nb::arg("stream").none() = nb::none(), nb::kw_only(),
             nb::arg("timeout").none(),
             nb::sig("def enqueue_awaited_tokens(self, step: int, tokens: object, stream: int | None = None, "
                     "*, timeout: float) -> None"),
             "The same of a step that need not be decided yet: on a GPU what follows in the stream waits for "
             "it, "
             "at most `timeout` seconds, and this call does not. -1 too where no token came in time.")
        .def("enqueue_awaited_tokens_pointer", &Writer::enqueue_awaited_tokens_pointer,
             nb::arg("step").none(), nb::arg("pointer").none(), nb::arg("stream").none() = nb::none(),
             nb::kw_only(), nb::arg("timeout").none(),
             nb::sig("def enqueue_awaited_tokens_pointer(self, step: int, pointer: int, "
                     "stream: int | None = None, *, timeout: float) -> None"),
             "The same to an address; nothing of it is checked.")
        .def("enqueue_randoms", &Writer::enqueue_randoms, nb::arg("stream").none() = nb::none(),
             nb::sig("def enqueue_randoms(self, stream: int | None = None) -> None"),
             "Of rank 0, before the same step's enqueue(), where the session has randoms_supplied.")
        .def("abandon", &Writer::abandon,
             "Forgets the steps that are begun and were not enqueued: they can be begun again.")
        .def("detach", &Writer::detach, "Waits for what was enqueued and lets go of the rank.");
}

}  // namespace croupier::python
