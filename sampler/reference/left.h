// What is left of a row between two steps, and what the steps ask of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sampler/formulas.h"
#include "sampler/mass.h"
#include "sampler/row_view.h"

namespace croupier::sampler::reference {

struct Token {
    double value;  // its logit, never -inf: such a token is not left
    std::int32_t id;
};

// Logit descending, then id ascending.
bool canonically_before(const Token& a, const Token& b);

struct Left {
    std::vector<Token> tokens;  // in the order of their ids until a filter or a draw wants the canonical one
    double temperature = 1.0;   // 1 until the temperature's step
};

void sort_canonically(Left& left);

// Puts the best `count`, in canonical order, before the others.
void sort_best(Left& left, std::size_t count);

// What the tokens weigh against each other.
struct Weights {
    Weigher weigh{};
    std::vector<Mass> masses;  // in the tokens' order
    Mass total = 0;
};

Weigher weigher_of(const Left& left);
Weights weights_of(const Left& left);
Mass total_mass(const Left& left, const Weigher& weigh);
EntropySums entropy_sums(const Left& left, const Weigher& weigh);

// Of the tokens, in any order.
std::vector<ValueClass> classes_of(const std::vector<Token>& tokens);

enum class RowFault { none, nan, positive_infinity };

// Reads all tokens that are not -inf, in the order of their ids. A NaN counts before a +inf.
RowFault read_row(const RowView& view, Left& left);

}  // namespace croupier::sampler::reference
