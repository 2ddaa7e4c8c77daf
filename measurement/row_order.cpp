#include "measurement/row_order.h"

#include <fstream>
#include <stdexcept>
#include <utility>

#include "shm/hotness_file.h"

namespace croupier::measurement {

std::vector<std::uint32_t> read_order(const std::string& path, std::uint32_t vocab) {
    auto loaded = shm::load_hotness(path, vocab);
    if (loaded) return proto::rank_blocks(loaded.value().order);
    std::ifstream file(path, std::ios::binary);
    std::vector<std::int32_t> ids(vocab);
    const auto bytes = static_cast<std::streamsize>(ids.size() * sizeof(std::int32_t));
    const bool bare = file.read(reinterpret_cast<char*>(ids.data()), bytes) && file.peek() == EOF;
    if (!bare) throw std::runtime_error(loaded.error().message);
    std::vector<bool> seen(vocab);
    for (const std::int32_t id : ids) {
        if (static_cast<std::uint32_t>(id) >= vocab || seen[static_cast<std::size_t>(id)]) {
            throw std::runtime_error(path + " is not an order of " + std::to_string(vocab) +
                                     " ids: " + std::to_string(id) + " is out of range or occurs twice");
        }
        seen[static_cast<std::size_t>(id)] = true;
    }
    // The file has no counts: assume the inverse of the rank, as in natural language.
    proto::HotnessOrder order;
    order.ids = std::move(ids);
    for (std::uint32_t rank = 0; rank < vocab; ++rank) order.counts.push_back(1.0 / (rank + 1.0));
    return proto::rank_blocks(order);
}

}  // namespace croupier::measurement
