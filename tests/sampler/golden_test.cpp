// Which tokens this version of the draw gives. Whoever changes one changes the version: a request must be
// able to say which draw it had.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "lm_cases.h"
#include "sampler/reference/decide.h"
#include "testing/deciding.h"

namespace croupier::sampler::test {
namespace {

constexpr const char* kFile = CROUPIER_GOLDEN_FOLDER "/draws.txt";
constexpr const char* kVersion = "draw version 1";
constexpr int kCases = 2000;
constexpr std::uint32_t kVocabs[] = {1, 63, 64, 65, 1000, 5003};

// A case's line.
std::string line_of(int number, const proto::Decision& decision) {
    std::string line = std::to_string(number) + ' ';
    if (decision.error == proto::DecisionError::none) return line + std::to_string(decision.token);
    return line + "error " + std::to_string(static_cast<int>(decision.error));
}

struct Answers {
    std::string fast;
    std::string reference;
};

// Each case has a seed of its own: one that is added changes no other.
std::vector<Answers> decide_all() {
    constexpr proto::Dtype kDtypes[] = {proto::Dtype::bf16, proto::Dtype::fp16, proto::Dtype::fp32};
    std::vector<std::unique_ptr<Workspace>> workspaces;
    for (const std::uint32_t vocab : kVocabs) workspaces.push_back(std::make_unique<Workspace>(vocab));
    std::vector<Answers> all;
    for (int number = 0; number < kCases; ++number) {
        std::mt19937_64 generator(static_cast<std::uint64_t>(number));
        const std::size_t size = generator() % workspaces.size();
        LmCase lm_case;
        fill_lm_row(lm_case, kVocabs[size], kDtypes[generator() % 3], generator);
        fill_lm_request(lm_case, generator);
        const RowFixture row(lm_case.logits, lm_case.shape);
        const proto::Decision ours = decide_once(row.view(), lm_case.request, *workspaces[size]);
        const proto::Decision expected = reference::decide(row.view(), lm_case.request).decision;
        all.push_back({line_of(number, ours), line_of(number, expected)});
    }
    return all;
}

void write(const std::vector<Answers>& all) {
    std::ofstream file(kFile);
    file << kVersion << '\n';
    for (const Answers& each : all) file << each.reference << '\n';
    REQUIRE(file.good());
}

}  // namespace

TEST_CASE(
    "the golden tokens are drawn, by the reference and the fast path, as long as the draw's version stands") {
    const std::vector<Answers> all = decide_all();
    if (std::getenv("CROUPIER_GOLDEN_WRITE") != nullptr) write(all);
    std::ifstream file(kFile);
    std::string line;
    REQUIRE(std::getline(file, line));
    REQUIRE(line == kVersion);
    for (const Answers& each : all) {
        REQUIRE(std::getline(file, line));
        CHECK(each.reference == line);
        CHECK(each.fast == line);
    }
    CHECK_FALSE(std::getline(file, line));
}

}  // namespace croupier::sampler::test
