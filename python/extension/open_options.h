// The keyword arguments of croupier.Session: the fields of croupier_open_options.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "croupier/client.h"

namespace croupier::python {

namespace nb = nanobind;

// Keeps what the options point to.
class OpenOptions {
  public:
    explicit OpenOptions(const nb::kwargs& given);
    OpenOptions(const OpenOptions&) = delete;
    OpenOptions& operator=(const OpenOptions&) = delete;

    const croupier_open_options& plain() const { return plain_; }
    // The croupier.FanOut that must outlive the session, or nothing.
    const nb::object& relay() const { return relay_; }

    // Of __init__, for people and type checkers.
    static std::string signature();

  private:
    void set(const std::string& name, nb::handle value);
    bool set_number(const std::string& name, nb::handle value);
    bool set_text(const std::string& name, nb::handle value);
    void set_transport(nb::handle value);
    void set_order(nb::handle value);
    void set_shard_ids(nb::handle value);
    void set_timeout(nb::handle value);
    void set_relay(nb::handle value);
    void require_dtype() const;
    void require_all_blocks() const;
    void require_all_ranks() const;

    croupier_open_options plain_;
    nb::object relay_;
    std::deque<std::string> texts_;
    std::vector<std::uint32_t> order_;
    std::vector<std::uint32_t> shard_ids_;
};

std::uint32_t dtype_of(nb::handle value);
const char* dtype_name(std::uint32_t dtype);
const char* transport_name(std::uint32_t transport);

}  // namespace croupier::python
