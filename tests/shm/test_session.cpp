#include "test_session.h"

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>

#include "shm/step_claims.h"

namespace croupier::shm {

TestDirectory::TestDirectory() {
    std::string pattern = "/dev/shm/croupier-test-XXXXXX";
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    // Another user must get as far as the file to be refused by it.
    std::filesystem::permissions(pattern, std::filesystem::perms(0755));
    path_ = pattern;
}

TestDirectory::~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

proto::Geometry small_geometry() {
    proto::Geometry g;
    g.vocab = 20;
    g.tp = 2;
    g.max_batch = 8;
    g.slots = 3;
    g.dtype = proto::Dtype::fp32;
    g.tile = 1;
    g.max_sequences = 8;
    g.max_length = 32;
    g.max_bias = 4;
    g.max_stop_ids = 4;
    g.max_list_tokens = 8;
    proto::fill_even_shards(g);
    return g;
}

SegmentSpec spec_in(const TestDirectory& directory, const proto::Geometry& geometry) {
    return {directory.path(), "test", 1, "engine-0", geometry, {}, Hugepages::off};
}

namespace {

Segment create(const TestDirectory& directory, const proto::Geometry& geometry) {
    auto created = Segment::create(spec_in(directory, geometry));
    if (!created) FAIL(created.error().message);
    return std::move(created).value();
}

}  // namespace

TestSession::TestSession(const proto::Geometry& geometry) : daemon_(create(directory_, geometry)) {}

Segment TestSession::open() const {
    auto attached = Segment::attach(path(), Access::read_write);
    if (!attached) FAIL(attached.error().message);
    return std::move(attached).value();
}

std::vector<proto::ScheduleColumn> columns_of(std::uint64_t step, std::uint32_t count) {
    std::vector<proto::ScheduleColumn> columns(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        columns[i].sequence_uid = step * 1000 + i;
        columns[i].sequence_slot = i;
        columns[i].position = static_cast<std::uint32_t>(step);
        columns[i].ticket = static_cast<std::uint32_t>(step) + 7;
    }
    return columns;
}

proto::Decision decision_for(const proto::ScheduleColumn& column) {
    proto::Decision decision;
    decision.sequence_uid = column.sequence_uid;
    decision.token = static_cast<std::int32_t>(column.sequence_uid * 31 % 100003);
    decision.logprob = -static_cast<float>(decision.token);
    decision.position = column.position;
    return decision;
}

bool same(const proto::ScheduleColumn& a, const proto::ScheduleColumn& b) {
    return std::memcmp(&a, &b, sizeof(a)) == 0;
}

bool same(const proto::Decision& a, const proto::Decision& b) {
    return a.sequence_uid == b.sequence_uid && a.token == b.token && a.logprob == b.logprob &&
           a.position == b.position && a.flags == b.flags && a.error == b.error;
}

bool claim(const StepClaims& claims, std::uint32_t column, std::uint32_t owner) {
    return claims.try_claim(column, owner) || claims.try_claim_suspect(column, owner);
}

std::uint32_t decide_rest(const Segment& segment, std::uint64_t step, std::uint32_t columns,
                          std::uint32_t owner) {
    const StepClaims claims(segment, step);
    std::uint32_t decided = 0;
    for (std::uint32_t column = 0; column < columns; ++column) {
        if (!claim(claims, column, owner)) continue;
        claims.commit(column, columns, decision_for(segment.schedule_columns(claims.slot())[column]));
        ++decided;
    }
    return decided;
}

bool take_all(SchedulePublisher& client, const Segment& segment) {
    while (client.next_to_take() != client.next_to_publish()) {
        if (!client.next_complete()) return false;
        const auto asked = segment.schedule_columns(segment.slot_of(client.next_to_take()));
        const auto answers = client.next_decisions();
        for (std::size_t i = 0; i < answers.size(); ++i) {
            if (!same(answers[i], decision_for(asked[i]))) return false;
        }
        client.take();
    }
    return true;
}

}  // namespace croupier::shm
