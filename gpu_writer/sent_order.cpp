#include "gpu_writer/sent_order.h"

namespace croupier::gpu_writer {

void SentOrder::read(const proto::StoredArray<const proto::ScheduleColumn>& columns, bool windows) {
    columns_ = static_cast<std::uint32_t>(columns.size());
    const proto::LeanOrder order(columns_);
    if (windows) {
        for (std::uint32_t column = 0; column < columns_; ++column)
            rows_[column] = columns[column].load().row;
        proto::WindowOrder(order).lay(rows_, places_);
        last_part_ = proto::WindowOrder::parts() - 1;
        return;
    }
    for (std::uint32_t place = 0; place < columns_; ++place) {
        places_[place] = {static_cast<std::uint16_t>(order.column_at(place)),
                          static_cast<std::uint16_t>(order.part_at(place))};
    }
    last_part_ = order.parts() - 1;
}

}  // namespace croupier::gpu_writer
