// The options of croupier_open(), checked and copied.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "client/dealer.h"
#include "croupier/client.h"
#include "proto/geometry.h"
#include "shm/error.h"
#include "text/token_table.h"

namespace croupier::client {

struct OpenRequest {
    std::string endpoint;
    CurveKeys keys;
    std::string name;
    proto::Geometry geometry;
    std::vector<std::uint32_t> order;  // all blocks, hottest first; empty: identity
    text::TokenTable tokens;           // empty: the session has no tokenizer
    bool without_texts = false;
    bool takeover = false;
    bool resume = false;
    bool decisions_over_zmq = false;
    bool randoms_supplied = false;
    std::optional<croupier_record_channel> relay;
    std::chrono::milliseconds timeout{};
};

shm::Result<OpenRequest> check_options(const croupier_open_options& given);

}  // namespace croupier::client
