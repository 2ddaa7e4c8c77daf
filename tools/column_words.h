// A recorded column as text: the path that decided it, its error, and notes.
#pragma once

#include <string>
#include <vector>

#include "proto/column_journal.h"

namespace croupier::tools {

std::string path_name(std::uint8_t path);
// "none" if the column was decided without an error.
std::string error_name(std::uint8_t error);
// {"asked for more of its row", "from the tail"}, or none.
std::vector<std::string> notes_on(const proto::ColumnRecord& column);

}  // namespace croupier::tools
