#include "bench/cliffs/read_time.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "measurement/percentiles.h"
#include "measurement/read_once.h"
#include "measurement/uninterrupted.h"

namespace croupier::bench {

double read_time_us(const measurement::LaidRows& rows) {
    constexpr std::uint32_t kReads = 400;
    volatile std::uint64_t sink = 0;
    std::vector<std::uint64_t> times;
    for (std::uint32_t read = 0; read < kReads; ++read) {
        const std::uint32_t index = read % rows.count();
        const double took = measurement::running_us(
            [&] { sink = sink + measurement::read_once(rows.bytes(index), rows.row_bytes()); });
        times.push_back(static_cast<std::uint64_t>(took * 1e3));
    }
    return measurement::percentiles_us(std::move(times)).p50;
}

}  // namespace croupier::bench
