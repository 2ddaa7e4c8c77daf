// The text of a whole sequence, as Hugging Face's decoders produce it: each turns a list of strings into
// another.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace croupier::text {

// `tokenizer` is a tokenizer.json. Of the differences that text_decoder.h names, this has the one about runs
// of bytes.
std::string whole_decode(const nlohmann::json& tokenizer, std::span<const std::int32_t> ids,
                         bool skip_special);

}  // namespace croupier::text
