#include "tools/column_words.h"

#include <utility>

#include "proto/decision.h"
#include "sampler/workspace.h"

namespace croupier::tools {

std::string path_name(std::uint8_t path) {
    return request::name_of(static_cast<request::DecisionPath>(path));
}

std::string error_name(std::uint8_t error) {
    return error < proto::kDecisionErrorNames.size() ? proto::kDecisionErrorNames[error]
                                                     : std::to_string(error);
}

std::vector<std::string> notes_on(const proto::ColumnRecord& column) {
    std::vector<std::string> notes;
    if (column.error != 0) notes.push_back(error_name(column.error));
    if (column.left_open != 0) notes.push_back("after " + path_name(column.left_open));
    constexpr std::pair<std::uint8_t, const char*> kMarks[] = {
        {proto::kColumnLeft, "asked for more of its row"},
        {proto::kColumnReadEarly, "read early"},
        {proto::kColumnHot, "from the head"},
        {proto::kColumnTail, "from the tail"},
        {proto::kColumnCorrected, "several proposals"}};
    for (const auto& [mark, words] : kMarks) {
        if ((column.marks & mark) != 0) notes.emplace_back(words);
    }
    return notes;
}

}  // namespace croupier::tools
