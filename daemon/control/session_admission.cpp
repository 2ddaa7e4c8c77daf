#include "daemon/control/session_admission.h"

#include <algorithm>

#include "proto/hotness_order.h"
#include "text/text_error.h"
#include "text/token_table.h"

namespace croupier::daemon {

using shm::Errc;
using shm::fail;

namespace {

constexpr std::size_t kLongestName = 63;

shm::Result<bool> check_name(const std::string& name) {
    const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 127; });
    if (!name.empty() && name.size() <= kLongestName && printable) return true;
    const std::string fault = name.empty() ? "is empty"
                              : name.size() > kLongestName
                                  ? "has " + std::to_string(name.size()) + " bytes"
                                  : "has a blank or a byte that is not printable ASCII";
    return fail(Errc::bad_argument, "the session's name " + fault + "; allowed: 1 to " +
                                        std::to_string(kLongestName) +
                                        " printable characters without blanks");
}

shm::Result<bool> check_order(const SessionRequest& request) {
    if (request.order.empty()) return true;
    const std::uint32_t blocks = request.geometry.blocks();
    if (request.order.size() != blocks) {
        return fail(Errc::bad_argument, "the hotness order has " + std::to_string(request.order.size()) +
                                            " blocks, the vocabulary of " +
                                            std::to_string(request.geometry.vocab) + " ids has " +
                                            std::to_string(blocks) + " of 64 ids");
    }
    if (auto fault = proto::block_order_fault(request.order, 0)) {
        return fail(Errc::bad_argument, "the hotness order is refused: " + *fault);
    }
    return true;
}

// Samplers read it.
shm::Result<bool> check_token_table(const SessionRequest& request) {
    if (request.token_table.empty()) return true;
    try {
        (void)text::TokenTable::view(request.token_table);
        return true;
    } catch (const text::TextError& error) {
        return fail(Errc::bad_argument, std::string("the tokenizer is refused: ") + error.what());
    }
}

shm::Result<bool> within(const char* field, const char* key, std::uint64_t value, std::uint64_t most) {
    if (value <= most) return true;
    return fail(Errc::refused, std::string(field) + " is " + std::to_string(value) + ", this daemon allows " +
                                   std::to_string(most) + " (" + key + " in its configuration)");
}

shm::Result<bool> not_resumable(const SessionRequest& request, Errc code, const std::string& difference) {
    return fail(code, "session " + request.name + " cannot be resumed with these options: " + difference +
                          "; open it with what it has, or without resume to begin anew");
}

}  // namespace

proto::Geometry geometry_of(const SessionRequest& request) {
    proto::Geometry geometry = request.geometry;
    geometry.has_order = request.order.empty() ? 0 : 1;
    geometry.token_table_bytes = static_cast<std::uint32_t>(request.token_table.size());
    return geometry;
}

shm::Result<bool> check_request(const SessionRequest& request, const config::Sessions& quotas) {
    CROUPIER_TRY(check_name(request.name));
    if (auto fault = proto::geometry_fault(geometry_of(request))) return fail(Errc::bad_geometry, *fault);
    const auto& geometry = request.geometry;
    CROUPIER_TRY(within("max_batch", "sessions.max_batch", geometry.max_batch, quotas.max_batch));
    CROUPIER_TRY(within("vocab", "sessions.max_vocab", geometry.vocab, quotas.max_vocab));
    CROUPIER_TRY(
        within("max_sequences", "sessions.max_sequences", geometry.max_sequences, quotas.max_sequences));
    CROUPIER_TRY(within("max_length", "sessions.max_sequence_tokens", geometry.max_length,
                        quotas.max_sequence_tokens));
    CROUPIER_TRY(within("max_support", "sessions.max_support", geometry.max_support, quotas.max_support));
    CROUPIER_TRY(within("max_list_tokens", "sessions.max_list_tokens", geometry.max_list_tokens,
                        quotas.max_list_tokens));
    CROUPIER_TRY(check_token_table(request));
    return check_order(request);
}

shm::Result<bool> check_room(const SessionRequest& request, const config::Sessions& quotas,
                             std::size_t sessions, std::uint64_t bytes_in_use) {
    if (sessions >= quotas.max) {
        return fail(Errc::table_full,
                    "this daemon serves " + std::to_string(quotas.max) +
                        " sessions at once (sessions.max in its configuration) and has them");
    }
    const std::uint64_t bytes = proto::layout_of(geometry_of(request)).total_bytes;
    if (auto ok = within("the segment's size in bytes", "sessions.max_segment_bytes", bytes,
                         quotas.max_segment_bytes);
        !ok) {
        return fail(Errc::no_memory, ok.error().message);
    }
    const std::uint64_t left = quotas.max_total_bytes - std::min(bytes_in_use, quotas.max_total_bytes);
    if (bytes > left) {
        return fail(Errc::no_memory, "the session needs " + std::to_string(bytes) + " bytes, of " +
                                         std::to_string(quotas.max_total_bytes) +
                                         " (sessions.max_total_bytes) only " + std::to_string(left) +
                                         " are left");
    }
    return true;
}

shm::Result<bool> check_same_session(const shm::Segment& present, const SessionRequest& request) {
    if (auto difference = proto::geometry_difference(present.geometry(), geometry_of(request)))
        return not_resumable(request, Errc::bad_geometry, *difference);
    const auto order = present.model_order();
    if (!std::equal(order.begin(), order.end(), request.order.begin(), request.order.end()))
        return not_resumable(request, Errc::bad_argument, "the hotness order is another one");
    const auto table = present.token_table();
    if (std::equal(table.begin(), table.end(), request.token_table.begin(), request.token_table.end()))
        return true;
    return not_resumable(request, Errc::bad_argument, "the tokenizer is another one");
}

shm::Error not_yours(const std::string& name) {
    return {Errc::permission_denied,
            "session " + name +
                " belongs to another: only the user (over tcp: the CURVE key) that opened "
                "it may act for it; choose another name, or ask as that one"};
}

void write_order(const shm::Segment& segment, std::span<const std::uint32_t> order) {
    const proto::Geometry& geometry = segment.geometry();
    std::copy(order.begin(), order.end(), segment.model_order().begin());
    for (std::uint32_t rank = 0; rank < geometry.tp; ++rank) {
        const auto own = proto::blocks_of_rank(geometry, rank, order);
        std::copy(own.begin(), own.end(), segment.order(rank).begin());
    }
    for (std::uint32_t choice = 1; choice < proto::kHotChoices; ++choice) {
        const auto prefixes = proto::hot_prefixes(geometry, order, proto::hot_size(choice));
        std::copy(prefixes.begin(), prefixes.end(), segment.hot_blocks(choice).begin());
    }
}

}  // namespace croupier::daemon
