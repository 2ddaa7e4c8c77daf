#include "client/known_structs.h"

#include "shm/caller_struct.h"

namespace croupier::client {

const croupier_sequence& KnownSequence::linked() {
    sequence.params = &params;
    return sequence;
}

shm::Result<KnownSequence> known_sequence(const croupier_sequence& given) {
    auto sequence = shm::read_struct(given, "croupier_sequence", kSequenceAtFirst);
    if (!sequence) return sequence.error();
    KnownSequence known{sequence.value(), {}, {}, {}};
    croupier_params_init(&known.params);
    if (known.sequence.params != nullptr) {
        CROUPIER_TRY_VALUE(params,
                           shm::read_struct(*known.sequence.params, "croupier_params", kParamsAtFirst));
        known.params = params;
    }
    for (std::size_t i = 0; i < known.sequence.stop_string_count; ++i) {
        const bool is_null =
            known.sequence.stop_strings == nullptr || known.sequence.stop_strings[i].bytes == nullptr;
        if (is_null)
            return shm::fail(shm::Errc::bad_argument, "sequence " + std::to_string(known.sequence.uid) +
                                                          ": stop_strings[" + std::to_string(i) +
                                                          "] is null");
    }
    if (known.sequence.bias_count > 0 && known.sequence.bias == nullptr) {
        return shm::fail(shm::Errc::bad_argument, "sequence " + std::to_string(known.sequence.uid) +
                                                      ": bias is null, but its count is " +
                                                      std::to_string(known.sequence.bias_count));
    }
    return known;
}

shm::Result<std::span<const croupier_column>> known_columns(const croupier_column* given, std::size_t count,
                                                            std::size_t size,
                                                            std::vector<croupier_column>& room) {
    std::span<const croupier_column> known(given, count);
    if (size != sizeof(croupier_column)) {
        CROUPIER_TRY(shm::read_array(given, count, size, "columns", kColumnAtFirst, room));
        known = room;
    }
    for (std::size_t column = 0; column < count; ++column) {
        if (known[column].reserved != 0)
            return shm::fail(shm::Errc::bad_argument, "columns[" + std::to_string(column) +
                                                          "]: a reserved field is set, it should be 0");
    }
    return known;
}

}  // namespace croupier::client
