// The tile shapes that are compiled, by the width of their tiles. Of each width, the default comes first.
#pragma once

#include "bench/head/head_product.h"

namespace croupier::head {

std::span<const HeadVariant> small_variants();   // 8 to 32 columns
std::span<const HeadVariant> middle_variants();  // 64 and 128
std::span<const HeadVariant> large_variants();   // 256

}  // namespace croupier::head
