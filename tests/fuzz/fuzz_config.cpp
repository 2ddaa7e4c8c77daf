// Any bytes are either a configuration, which survives being written and read, or problems that say
// something.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/load.h"
#include "config/write.h"

namespace {

void require(bool condition) {
    if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace croupier::config;
    const LoadResult result = load_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
    require(result.config.has_value() == result.problems.empty());
    for (const Problem& problem : result.problems) require(!problem.message.empty());
    if (result.config) {
        const LoadResult again = load_text(to_yaml(*result.config), "written.yaml");
        require(again.config == result.config);
    }
    return 0;
}
