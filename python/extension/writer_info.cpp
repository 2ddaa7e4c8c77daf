#include "python/extension/writer_info.h"

#include <nanobind/stl/string.h>

#include <string>

#include "python/extension/open_options.h"

namespace croupier::python {

void bind_writer_info(nb::module_& module) {
    nb::class_<WriterInfo> info(module, "WriterInfo",
                                "What a writer's session is like, and which part is its rank's.");
#define CROUPIER_BIND(field, meaning) \
    info.def_prop_ro(                 \
        #field, [](const WriterInfo& self) { return self.field; }, meaning);
    CROUPIER_BIND(vocab, "the session's")
    CROUPIER_BIND(tp, "how many ranks there are")
    CROUPIER_BIND(rank, "of this writer")
    CROUPIER_BIND(first_id, "of the rank's part of the vocabulary")
    CROUPIER_BIND(ids, "of the rank's part: the length of its rows")
    CROUPIER_BIND(tile, "ids in a tile")
    CROUPIER_BIND(tiles, "of the rank")
    CROUPIER_BIND(max_batch, "columns that a step has at most")
    CROUPIER_BIND(steps_in_flight, "slots of the session")
    CROUPIER_BIND(device, "of CUDA; -1: the host")
    CROUPIER_BIND(store_blocks, "the most multiprocessors that the store kernel occupies")
    CROUPIER_BIND(
        head_rows,
        "0: enqueue_head() cannot run here; else steps of up to so many rows are as soon with it, or sooner")
    CROUPIER_BIND(head_row_elements, "of a row that enqueue_head() computes, at least")
    CROUPIER_BIND(row_bytes, "of the GPU's memory, where lean steps' rows are copied")
#undef CROUPIER_BIND
    info.def_prop_ro(
            "dtype", [](const WriterInfo& self) { return dtype_name(self.dtype); }, "bf16, fp16 or fp32")
        .def_prop_ro(
            "has_order", [](const WriterInfo& self) { return self.has_order != 0; },
            "whether blocks of ids lie in a hotness order")
        .def_prop_ro(
            "has_summaries", [](const WriterInfo& self) { return self.has_summaries != 0; },
            "whether the tiles' largest logits are given too")
        .def_prop_ro(
            "transport", [](const WriterInfo& self) { return transport_name(self.transport); },
            "rows or lean, as the session was opened");

    nb::class_<WriterState>(module, "WriterState", "How far a writer is.")
        .def_prop_ro(
            "open", [](const WriterState& self) { return self.open != 0; },
            "False: it has ended, or neither a client nor a daemon lives, which may change")
        .def_prop_ro(
            "ended", [](const WriterState& self) { return self.ended != 0; },
            "whether the session was closed, or another writer or client took over: no step comes")
        .def_prop_ro(
            "begun", [](const WriterState& self) { return self.begun; }, "steps that begin() queued")
        .def_prop_ro(
            "finished", [](const WriterState& self) { return self.finished; },
            "of them, those whose slice is complete")
        .def_prop_ro(
            "late_steps", [](const WriterState& self) { return self.late_steps; },
            "steps some of whose awaited tokens did not come in time: those are -1 here, and perhaps not "
            "elsewhere")
        .def_prop_ro(
            "empty_launches", [](const WriterState& self) { return self.empty_launches; },
            "replays of a captured graph that found no begun step");

    nb::class_<WantedStep>(module, "WantedStep", "A step that wants a rank's logits.")
        .def_ro("step", &WantedStep::step, "its number")
        .def_ro("rows", &WantedStep::rows, "of logits, over all columns and their windows")
        .def("__repr__", [](const WantedStep& self) {
            return "WantedStep(step=" + std::to_string(self.step) + ", rows=" + std::to_string(self.rows) +
                   ")";
        });
}

}  // namespace croupier::python
