// croupier.FanOut, as croupier.Session has it: the way of its records to another host.
#pragma once

#include <nanobind/nanobind.h>

#include "croupier/fan_out.h"
#include "python/extension/held.h"

namespace croupier::python {

// The root of a group of two, the other one being a relay.
class FanOut {
  public:
    explicit FanOut(croupier_fan_out* group);
    FanOut(const FanOut&) = delete;
    FanOut& operator=(const FanOut&) = delete;
    ~FanOut();

    // For croupier_open_options.relay. What goes through it after close() fails as a group that is gone.
    const croupier_record_channel* channel() const { return &channel_; }
    bool is_open() const { return held_.is_open(); }
    void close() { held_.take_apart(croupier_fan_out_close); }

  private:
    template <typename Call>
    int through(croupier_error* error, Call&& call);
    static int send(void* self, const void* record, std::size_t size, croupier_error* error);
    static int receive(void* self, std::uint32_t timeout_ms, const void** answer, std::size_t* size,
                       croupier_error* error);
    static int descriptor(void* self);

    Held<croupier_fan_out> held_;
    croupier_record_channel group_channel_;
    croupier_record_channel channel_;
};

}  // namespace croupier::python
