// Files with rows, mapped once for all requests that name them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace croupier::explain {

class RowFiles {
  public:
    RowFiles() = default;
    RowFiles(const RowFiles&) = delete;
    RowFiles& operator=(const RowFiles&) = delete;
    ~RowFiles();

    // The row `index` of the file; each row has `row_bytes` bytes. Throws RequestError.
    std::span<const std::byte> row(const std::string& path, std::uint64_t row_bytes, std::uint64_t index);

  private:
    struct Mapping {
        int file = -1;
        std::uint64_t size = 0;
        const std::byte* bytes = nullptr;
    };
    const Mapping& mapped(const std::string& path);
    static Mapping map(const std::string& path);
    static void unmap(const Mapping& mapping);

    std::map<std::string, Mapping> mappings_;
};

}  // namespace croupier::explain
