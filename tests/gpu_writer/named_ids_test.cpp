// The ids that requests name, as the kernel of a step reads them.
#include "gpu_writer/named_ids.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "proto/lean_part.h"
#include "request/wants.h"

using namespace croupier;
using gpu_writer::NamedIds;
using gpu_writer::StepNames;

namespace {

constexpr std::uint32_t kVocab = 20'000;
constexpr std::uint32_t kBlocks = 96;

class Named {
  public:
    explicit Named(std::size_t words = 4096) : room_(words), names_(room_, 3) {}

    void begin() { names_.begin(); }
    gpu_writer::LeanWant allow(std::uint32_t column, std::uint32_t admission,
                               const std::vector<std::int32_t>& ids) {
        const proto::SamplingParams params;
        const auto plan = request::plan_of(params, {{true, false}, false, 10, kVocab});
        return names_.want_of(column, plan, params, {column, admission, ids, {}}, kBlocks);
    }
    gpu_writer::LeanWant lift(const std::vector<proto::TokenBias>& biases) {
        const proto::SamplingParams params;
        const auto plan = request::plan_of(params, {{false, true}, false, 10, kVocab});
        return names_.want_of(0, plan, params, {0, 1, {}, biases}, kBlocks);
    }
    std::vector<std::int32_t> ids_of(const gpu_writer::LeanWant& want) const {
        const std::uint32_t* list = names_.names().of(want);
        REQUIRE(list[0] == want.named);
        const auto id_at = [&](std::uint32_t i) { return list[StepNames::kHeadWords + i]; };
        CHECK(list[1] == proto::word_of_ids(want.named, id_at));
        std::vector<std::int32_t> ids;
        for (std::uint32_t i = 0; i < want.named; ++i) ids.push_back(static_cast<std::int32_t>(id_at(i)));
        return ids;
    }
    std::vector<std::uint32_t>& room() { return room_; }

  private:
    std::vector<std::uint32_t> room_;
    NamedIds names_;
};

bool is_whole(const gpu_writer::LeanWant& want) {
    return want.flags.has(request::Want::whole);
}

}  // namespace

TEST_CASE("the ids that columns name stand one list behind the other, in their requests' order") {
    Named named;
    named.begin();
    const std::vector<std::int32_t> first{5, 3, 3, 19'999};
    const std::vector<std::int32_t> second{7};
    const auto one = named.allow(0, 1, first);
    const auto other = named.allow(2, 1, second);
    CHECK(named.ids_of(one) == first);
    CHECK(named.ids_of(other) == second);
    CHECK(one.names_line == 0);
    CHECK(other.names_line == 1);
    named.begin();
    CHECK(named.ids_of(named.lift({{4, 1.0F}, {9, -2.0F}})) == std::vector<std::int32_t>{4, 9});
}

TEST_CASE("a list of the same admission is copied again only where another one stood there meanwhile") {
    Named named;
    const std::vector<std::int32_t> ids{5, 3};
    named.begin();
    const auto at = named.allow(0, 1, ids).names_line * StepNames::kLineWords + StepNames::kHeadWords;
    named.begin();
    named.room()[at] = 77;
    CHECK(named.allow(0, 1, ids).names_line * StepNames::kLineWords + StepNames::kHeadWords == at);
    CHECK(named.room()[at] == 77);
    // Another admission's.
    named.begin();
    CHECK(named.ids_of(named.allow(0, 2, ids)) == ids);
    // Between, the column named nothing, and another one did.
    named.begin();
    CHECK(named.ids_of(named.allow(1, 1, {8, 9})) == std::vector<std::int32_t>{8, 9});
    named.begin();
    CHECK(named.ids_of(named.allow(0, 2, ids)) == ids);
    // Of no sequence.
    named.begin();
    named.room()[at] = 77;
    CHECK(named.ids_of(named.allow(0, 0, ids)) == ids);
}

TEST_CASE("a column whose list is too long, or does not fit beside the others, is sent whole") {
    Named named(64);
    named.begin();
    CHECK_FALSE(is_whole(named.allow(0, 1, std::vector<std::int32_t>(50, 1))));
    const auto without = named.allow(1, 1, {1, 2, 3});
    CHECK(is_whole(without));
    CHECK(without.named == 0);
    Named large(100'000);
    large.begin();
    const std::uint32_t most = request::most_named({true, false}, kBlocks);
    CHECK_FALSE(is_whole(large.allow(0, 1, std::vector<std::int32_t>(most, 1))));
    CHECK(is_whole(large.allow(0, 1, std::vector<std::int32_t>(most + 1, 1))));
}
