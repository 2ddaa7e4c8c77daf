#include "tools/decide/parameters_page.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

namespace croupier::tools {

TEST_CASE("docs/parameters.md equals the output of croupier decide --parameters") {
    std::ifstream in(std::string(CROUPIER_SOURCE_DIR) + "/docs/parameters.md", std::ios::binary);
    REQUIRE(in.good());
    CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == parameters_page());
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
