#include "client/options.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/abi_fields.h"
#include "client/known_structs.h"
#include "client/schedule_place.h"
#include "proto/default_paths.h"
#include "proto/fan_out_frame.h"
#include "proto/hotness_order.h"
#include "proto/segment_header.h"
#include "proto/wire.h"
#include "shm/caller_struct.h"
#include "shm/hotness_file.h"
#include "text/text_error.h"
#include "text/tokenizer_file.h"

namespace croupier::client {
namespace {

using proto::Geometry;
using shm::Errc;

constexpr std::size_t kLongestName = sizeof(proto::SegmentHeader::name) - 1;
constexpr std::uint32_t kDefaultTimeoutMs = 5000;

std::string text_of(const char* text) {
    return text == nullptr ? std::string() : std::string(text);
}

std::optional<std::string> flags_fault(const croupier_open_options& options) {
    const std::array flags = {std::pair("summaries", options.summaries),
                              std::pair("takeover", options.takeover),
                              std::pair("resume", options.resume),
                              std::pair("decisions_over_zmq", options.decisions_over_zmq),
                              std::pair("randoms_supplied", options.randoms_supplied),
                              std::pair("without_texts", options.without_texts)};
    for (const auto& [name, value] : flags) {
        if (value > 1) return std::string(name) + " is " + std::to_string(value) + ", allowed is 0 to 1";
    }
    return std::nullopt;
}

// A step's record has its masks, one a column at most, and little beside them.
std::optional<std::string> masks_fault(const Geometry& geometry) {
    constexpr std::uint64_t kMostMaskBytes = proto::kMaxRecordBytes - (1U << 20U);
    static_assert(kMostMaskBytes + (proto::kMaxBatch + 64) * sizeof(wire::ColumnEntry) <=
                  proto::kMaxRecordBytes);
    const std::uint64_t each = mask_words(geometry.vocab) * sizeof(std::uint32_t);
    const std::uint64_t masks = std::min(geometry.mask_rows, geometry.max_batch);
    const std::uint64_t all = masks * each;
    if (all <= kMostMaskBytes) return std::nullopt;
    return "the " + std::to_string(masks) + " grammar masks of a step (mask_rows) are " +
           std::to_string(all) + " bytes for a vocabulary of " + std::to_string(geometry.vocab) +
           ", through a relay they may be " + std::to_string(kMostMaskBytes) +
           ": open the session with a mask_rows of at most " + std::to_string(kMostMaskBytes / each);
}

std::optional<std::string> options_fault(const croupier_open_options& options, const Geometry& geometry) {
    if (auto fault = flags_fault(options)) return fault;
    if (options.dtype == CROUPIER_DTYPE_UNSET)
        return "dtype is not set: CROUPIER_BF16, CROUPIER_FP16 or CROUPIER_FP32 would be right";
    if (options.endpoint != nullptr && *options.endpoint == '\0') {
        return "endpoint is empty, it should be the daemon's control.endpoint, ipc://<path> or "
               "tcp://<host>:<port>, or NULL for the daemon that runs here";
    }
    if (options.transport > CROUPIER_TRANSPORT_LEAN)
        return "transport is " + std::to_string(options.transport) + ", allowed: rows or lean (0 or 1)";
    if (options.transport == CROUPIER_TRANSPORT_LEAN && options.randoms_supplied != 0) {
        return "randoms_supplied is 1, which needs the transport rows: open the session with that, or let "
               "the samplers make the randoms";
    }
    const std::string name = text_of(options.name);
    if (name.empty() || name.size() > kLongestName) {
        return "name has " + std::to_string(name.size()) + " characters, allowed is 1 to " +
               std::to_string(kLongestName);
    }
    if (options.steps_in_flight < 1 || options.steps_in_flight > proto::kMaxSlots) {
        return "steps_in_flight is " + std::to_string(options.steps_in_flight) + ", allowed is 1 to " +
               std::to_string(proto::kMaxSlots);
    }
    if (options.order != nullptr && options.hotness_file != nullptr) {
        return "order and hotness_file are both given, a session has one order: leave one of them NULL";
    }
    if (options.hotness_file != nullptr && *options.hotness_file == '\0') {
        return "hotness_file is empty, it should be NULL or the path of a file that `croupier hotset build` "
               "wrote";
    }
    const bool pads = options.padded_vocab != 0;
    if (pads && (options.padded_vocab < options.vocab || options.padded_vocab > proto::kMaxPaddedVocab)) {
        return "padded_vocab is " + std::to_string(options.padded_vocab) + ", allowed is 0 or vocab, " +
               std::to_string(options.vocab) + ", to " + std::to_string(proto::kMaxPaddedVocab);
    }
    if (pads && options.shard_ids != nullptr) {
        return "padded_vocab and shard_ids are both given, either says what the ranks hold: leave "
               "padded_vocab 0";
    }
    const auto* relay = options.relay;
    if (relay != nullptr && (relay->send == nullptr || relay->receive == nullptr)) {
        return "relay has no functions, it should be NULL or what croupier_fan_out_channel() filled in";
    }
    if (relay != nullptr && options.endpoint != nullptr) {
        return "endpoint and relay are both given, and the relay asks the daemon of its host: leave endpoint "
               "NULL";
    }
    if (auto fault = proto::geometry_fault(geometry)) return fault;
    if (auto fault = relay != nullptr ? masks_fault(geometry) : std::nullopt) return fault;
    const bool sent = options.decisions_over_zmq != 0 || relay != nullptr;
    auto fault = sent ? proto::sending_fault(geometry) : std::nullopt;
    if (fault && relay == nullptr) *fault += ", or take decisions from the ring";
    return fault;
}

shm::Result<std::vector<std::uint32_t>> order_of(const croupier_open_options& options) {
    if (options.order != nullptr) {
        return std::vector(options.order, options.order + proto::blocks_of(options.vocab));
    }
    if (options.hotness_file == nullptr) return std::vector<std::uint32_t>();
    CROUPIER_TRY_VALUE(file, shm::load_hotness(options.hotness_file, options.vocab));
    return proto::rank_blocks(file.order);
}

shm::Result<text::TokenTable> tokens_of(const croupier_open_options& options) {
    if (options.tokenizer == nullptr) return text::TokenTable();
    const auto refuse = [&options](const std::string& why) {
        return shm::fail(Errc::bad_argument, "tokenizer '" + std::string(options.tokenizer) + "': " + why);
    };
    try {
        auto tokens = text::TokenTable::parse(text::read_tokenizer_file(options.tokenizer));
        if (!tokens.fault().empty()) return refuse(tokens.fault());
        if (tokens.image().size() <= proto::kMaxTokenTableBytes) return tokens;
        return refuse("its tokens need " + std::to_string(tokens.image().size()) + " bytes; allowed: up to " +
                      std::to_string(proto::kMaxTokenTableBytes));
    } catch (const text::TextError& error) {
        return refuse(error.what());
    }
}

}  // namespace

shm::Result<OpenRequest> check_options(const croupier_open_options& given) {
    CROUPIER_TRY_VALUE(known, shm::read_struct(given, "croupier_open_options", kOpenOptionsAtFirst));
    const croupier_open_options& options = known;
    const Geometry geometry = geometry_from_abi(options);
    if (auto fault = options_fault(options, geometry)) return shm::fail(Errc::bad_argument, *fault);
    CROUPIER_TRY_VALUE(order, order_of(options));
    OpenRequest request;
    request.endpoint =
        options.endpoint != nullptr ? options.endpoint : proto::serving_paths().control_endpoint();
    request.keys = {text_of(options.server_key), text_of(options.client_public_key),
                    text_of(options.client_secret_key)};
    request.name = options.name;
    request.geometry = geometry;
    request.order = std::move(order);
    CROUPIER_TRY_VALUE(tokens, tokens_of(options));
    request.tokens = std::move(tokens);
    request.geometry.token_table_bytes = static_cast<std::uint32_t>(request.tokens.image().size());
    request.without_texts = options.without_texts != 0;
    request.takeover = options.takeover != 0;
    request.resume = options.resume != 0;
    if (options.relay != nullptr) {
        CROUPIER_TRY_VALUE(channel,
                           shm::read_struct(*options.relay, "croupier_record_channel", kChannelAtFirst));
        request.relay = channel;
    }
    request.decisions_over_zmq = options.decisions_over_zmq != 0;
    request.randoms_supplied = options.randoms_supplied != 0;
    request.timeout =
        std::chrono::milliseconds(options.timeout_ms != 0 ? options.timeout_ms : kDefaultTimeoutMs);
    return request;
}

}  // namespace croupier::client
