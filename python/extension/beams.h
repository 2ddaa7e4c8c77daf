// croupier.Beams: a beam search of croupier/beams.h.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "croupier/beams.h"
#include "python/extension/held.h"

namespace croupier::python {

namespace nb = nanobind;

// As Python gave them.
struct BeamsArguments {
    nb::handle width, max_tokens, min_tokens, length_penalty, early_stopping, stop_ids;
};

class Beams {
  public:
    explicit Beams(const BeamsArguments& given);
    Beams(const Beams&) = delete;
    Beams& operator=(const Beams&) = delete;
    ~Beams();

    std::uint32_t candidates() const { return candidates_; }
    bool is_over() const { return is_over_; }
    nb::list step(nb::handle rows, nb::handle is_all);
    nb::list hypotheses();

    // Without the GIL, which the caller has let go of.
    template <typename Body>
    auto use_without_gil(Body&& body) {
        return held_->use_without_gil(body);
    }

  private:
    std::optional<Held<croupier_beams>> held_;
    std::uint32_t candidates_ = 0;
    bool is_over_ = false;
};

}  // namespace croupier::python
