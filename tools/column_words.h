// A kept column in words: by which path it was decided, what became of it, and what else is to be said.
#pragma once

#include <string>

#include "proto/column_journal.h"

namespace croupier::tools {

std::string path_name(std::uint8_t path);
// "none" of a decided column.
std::string error_name(std::uint8_t error);
// "", or "asked for more of its row, from the tail".
std::string notes_on(const proto::ColumnRecord& column);

}  // namespace croupier::tools
