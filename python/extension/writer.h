// A rank's writer as an object of Python's.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>

#include "croupier/writer.h"
#include "python/extension/begun_columns.h"
#include "python/extension/held.h"
#include "python/extension/writer_info.h"

namespace croupier::python {

class Writer {
  public:
    Writer(nb::handle segment_path, nb::handle rank, nb::handle device, nb::handle path,
           nb::handle store_blocks, nb::handle rows);
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;
    ~Writer() { held_.let_go(croupier_writer_detach); }

    const WriterInfo& info() const { return info_; }
    WriterState state();

    std::optional<WantedStep> wait_step(nb::handle seconds);
    bool begin(nb::handle given);
    void enqueue(nb::handle logits, nb::handle stream_given, nb::handle row_of, nb::handle inputs,
                 nb::handle parents, nb::handle positions);
    void enqueue_head(nb::handle hidden, nb::handle weight, nb::handle logits, nb::handle stream_given,
                      nb::handle row_of, nb::handle inputs, nb::handle parents, nb::handle positions);
    void enqueue_pointer(nb::handle pointer, nb::handle row_stride, nb::handle stream_given,
                         nb::handle row_of, nb::handle inputs, nb::handle parents, nb::handle positions);
    bool wait_tokens(nb::handle given, nb::handle seconds);
    void enqueue_tokens(nb::handle given, nb::handle tokens, nb::handle stream_given);
    void enqueue_awaited_tokens(nb::handle given, nb::handle tokens, nb::handle stream_given,
                                nb::handle timeout);
    void enqueue_tokens_pointer(nb::handle given, nb::handle pointer, nb::handle stream_given);
    void enqueue_awaited_tokens_pointer(nb::handle given, nb::handle pointer, nb::handle stream_given,
                                        nb::handle timeout);
    void enqueue_randoms(nb::handle stream_given);
    void abandon();
    void detach() { held_.take_apart(croupier_writer_detach); }

  private:
    // A GPU's work is only enqueued; a host's is done, and waited for, in the call.
    template <typename Body>
    void use_device(Body&& body);
    // What the library refuses it remembers itself.
    template <typename Enqueue>
    void or_refused(Enqueue&& enqueue);
    void enqueue_rows(croupier_writer* writer, void* stream, const croupier_rows& rows, bool& is_given);
    void enqueue_tokens_of(nb::handle given, nb::handle tokens, nb::handle stream_given,
                           std::optional<std::uint32_t> timeout_ms);
    void enqueue_tokens_at(nb::handle given, nb::handle pointer, nb::handle stream_given,
                           std::optional<std::uint32_t> timeout_ms);

    Held<croupier_writer> held_;
    WriterInfo info_;
    BegunColumns begun_;
};

}  // namespace croupier::python
