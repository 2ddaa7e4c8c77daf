// A request's keyword arguments, beside its uid: what Session.add() and Decider.decide() have in common.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <vector>

#include "croupier/types.h"

namespace croupier::python {

namespace nb = nanobind;

// As Python gave them; None and what is empty is nothing.
struct RequestArguments {
    nb::handle prompt, output, params, bias, stop_ids, allowed_ids, bad_words, dry_breakers, stop_strings;
};

// A copy, which needs no GIL.
class Request {
  public:
    Request(std::uint64_t uid, const RequestArguments& arguments);
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

    // Points into this object.
    croupier_sequence sequence() const;
    // Of its params, or the one that was drawn.
    std::uint64_t seed() const { return params_.seed; }

  private:
    std::uint64_t uid_;
    croupier_params params_;
    std::vector<std::int32_t> prompt_, output_, stop_ids_, allowed_ids_, bad_words_, dry_breakers_;
    std::vector<croupier_bias> bias_;
    std::vector<std::string> stop_texts_;
    std::vector<croupier_string> stop_strings_;  // point into them
};

std::uint64_t uid_of(nb::handle value);
// Of a sequence or an array of whole numbers; None: none. `name` as it stands in errors.
std::vector<std::int32_t> ids_of(nb::handle given, const std::string& name);

}  // namespace croupier::python
