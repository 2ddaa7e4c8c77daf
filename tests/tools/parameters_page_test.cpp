#include "tools/decide/parameters_page.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "proto/sampling.h"

namespace croupier::tools {
namespace {

std::string page_of(const std::string& name) {
    std::ifstream in(std::string(CROUPIER_SOURCE_DIR) + "/docs/" + name, std::ios::binary);
    REQUIRE(in.good());
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("docs/parameters.md equals the output of croupier decide --parameters") {
    CHECK(page_of("parameters.md") == parameters_page());
}

TEST_CASE("docs/semantics.md has a line for every step, in the default order") {
    const std::string page = page_of("semantics.md");
    // `penalties` has three lines there, the last of which this is.
    std::size_t before = page.find(" | presence_penalty ");
    for (const proto::Step step : proto::kDefaultOrder) {
        if (step == proto::Step::penalties || step == proto::Step::end) continue;
        const std::string name = proto::facts_of(step).name;
        INFO(name);
        const std::size_t line = page.find(" | " + name + ' ', before);
        REQUIRE(line != std::string::npos);
        before = line;
    }
}

TEST_CASE("the page of parameters lists allowed values, defaults and the values that mean off") {
    const std::string page = parameters_page();
    for (const char* line : {
             "| `top_p` | above 0, up to 1 | 1 | 1 |",
             "| `temperature` | 0 to 100 | 1 |  |",
             "| `top_n_sigma` | -1 to 100 (0 or less is off) | -1 | 0 or less |",
             "| `xtc_threshold` | 0 to 1 | 0.1 | above 0.5 |",
             "| `adaptive_target` | 0 to 1, or -1 for off | -1 | below 0 |",
             "| `rng` | race, shvs, sglang or vllm (0 to 3) | race |  |",
         }) {
        CHECK_THAT(page, Catch::Matchers::Contains(line));
    }
}

}  // namespace croupier::tools
