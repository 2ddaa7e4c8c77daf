// What /explain is asked: the part of its address after the question mark.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shm/error.h"

namespace croupier::daemon {

struct ExplainQuery {
    std::string session;  // its name, or its id
    std::uint64_t uid = 0;
    bool as_json = false;
};

// Fails with what is wrong, and what would be right.
shm::Result<ExplainQuery> parse_explain_query(std::string_view query);

// Bytes of another's as a person may read them in a line of text: no control characters, nothing that is not
// ASCII, and not too many.
std::string printable(std::string_view text);

}  // namespace croupier::daemon
