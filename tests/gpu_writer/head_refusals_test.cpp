// Hidden states that no writer could compute logits of, whatever its GPU: refused by name.
#include <catch2/catch.hpp>
#include <string>

#include "tests/gpu_writer/lean_session.h"

using namespace croupier;
using testing::Failure;
using testing::LeanSession;
using testing::Way;

namespace {

// Never read.
alignas(16) const unsigned char memory[32] = {};

croupier_head good_head() {
    croupier_head head;
    croupier_head_init(&head);
    head.hidden = memory;
    head.hidden_stride = 64;
    head.weight = memory + 16;
    head.weight_stride = 72;
    head.rows = testing::kLeanColumns;
    head.elements = 64;
    return head;
}

croupier_rows good_rows(const LeanSession& session) {
    croupier_rows rows;
    croupier_rows_init(&rows);
    rows.logits = memory;
    rows.row_stride = std::uint64_t{session.files.segment.geometry().blocks()} * proto::kBlockIds;
    return rows;
}

std::string refusal(LeanSession& session, const croupier_head& head, const croupier_rows& rows) {
    Failure failure;
    failure.status =
        croupier_writer_enqueue_head(session.writer.get(), nullptr, &head, &rows, &failure.error);
    CHECK(failure.status == -1);
    return failure.error.text;
}

std::string refusal_in(const proto::Geometry& geometry) {
    LeanSession session(Way::host, geometry);
    return refusal(session, good_head(), good_rows(session));
}

}  // namespace

TEST_CASE("hidden states are refused where nothing computes logits of them") {
    CHECK_THAT(refusal_in(testing::lean_geometry()), Catch::Contains("a host's writer computes no logits"));
    proto::Geometry geometry = testing::lean_geometry();
    geometry.dtype = proto::Dtype::fp32;
    CHECK_THAT(refusal_in(geometry), Catch::Contains("fp32") && Catch::Contains("bf16 or fp16"));
    CHECK_THAT(refusal_in(testing::small_geometry()), Catch::Contains("transport is rows"));
}

TEST_CASE("hidden states and heads of wrong sizes are refused by name") {
    LeanSession session(Way::host, testing::lean_geometry());
    const auto with = [&](auto change) {
        croupier_head head = good_head();
        change(head);
        return refusal(session, head, good_rows(session));
    };
    using Head = croupier_head;
    CHECK_THAT(with([](Head& head) { head.hidden = nullptr; }), Catch::Contains("hidden is null"));
    CHECK_THAT(with([](Head& head) { head.weight = nullptr; }), Catch::Contains("weight is null"));
    CHECK_THAT(with([](Head& head) { head.hidden = memory + 2; }), Catch::Contains("hidden begins 2 bytes"));
    CHECK_THAT(with([](Head& head) { head.weight = memory + 8; }), Catch::Contains("weight begins 8 bytes"));
    CHECK_THAT(with([](Head& head) { head.hidden_stride = 56; }), Catch::Contains("hidden_stride is 56"));
    CHECK_THAT(with([](Head& head) { head.hidden_stride = 68; }), Catch::Contains("hidden_stride is 68"));
    CHECK_THAT(with([](Head& head) { head.weight_stride = 65; }), Catch::Contains("weight_stride is 65"));
    CHECK_THAT(with([](Head& head) { head.weight_stride = std::uint64_t{1} << 30U; }),
               Catch::Contains("weight_stride is 1073741824, allowed: at most 1073741816"));
    CHECK_THAT(with([](Head& head) { head.elements = 0; }),
               Catch::Contains("elements of croupier_head is 0"));
    CHECK_THAT(with([](Head& head) { head.elements = 60; }), Catch::Contains("a multiple of 8"));
    CHECK_THAT(with([](Head& head) { head.rows = 0; }), Catch::Contains("rows of croupier_head is 0"));
    CHECK_THAT(with([](Head& head) { head.rows = 9; }), Catch::Contains("1 to 8, the session's max_batch"));
    CHECK_THAT(with([](Head& head) { head.size = 0; }), Catch::Contains("croupier_head"));
    const croupier_head head = good_head();
    const croupier_rows rows = good_rows(session);
    CHECK(croupier_writer_enqueue_head(session.writer.get(), nullptr, nullptr, &rows, nullptr) == -1);
    CHECK(croupier_writer_enqueue_head(session.writer.get(), nullptr, &head, nullptr, nullptr) == -1);
}

TEST_CASE("room for computed logits that does not hold them is refused by name") {
    LeanSession session(Way::host, testing::lean_geometry());
    const auto with = [&](auto change) {
        croupier_rows rows = good_rows(session);
        change(rows);
        return refusal(session, good_head(), rows);
    };
    using Rows = croupier_rows;
    const std::uint64_t least = good_rows(session).row_stride;
    CHECK_THAT(with([](Rows& rows) { rows.logits = nullptr; }), Catch::Contains("logits is null"));
    CHECK_THAT(with([](Rows& rows) { rows.logits = memory + 6; }), Catch::Contains("logits begins 6 bytes"));
    CHECK_THAT(with([&](Rows& rows) { rows.row_stride = least - 8; }),
               Catch::Contains("row_stride is " + std::to_string(least - 8) +
                               ", allowed: a multiple of 8 from " + std::to_string(least)));
    CHECK_THAT(with([&](Rows& rows) { rows.row_stride = least + 4; }), Catch::Contains("a multiple of 8"));
    CHECK_THAT(with([](Rows& rows) { rows.row_stride = std::uint64_t{1} << 30U; }),
               Catch::Contains("allowed: at most"));
}
