#include "sampler/reference/left.h"

#include <algorithm>
#include <functional>

namespace croupier::sampler::reference {

bool canonically_before(const Token& a, const Token& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

void sort_canonically(Left& left) {
    if (std::is_sorted(left.tokens.begin(), left.tokens.end(), canonically_before)) return;
    std::sort(left.tokens.begin(), left.tokens.end(), canonically_before);
}

void sort_best(Left& left, std::size_t count) {
    const auto end = left.tokens.begin() + static_cast<std::ptrdiff_t>(std::min(count, left.tokens.size()));
    std::nth_element(left.tokens.begin(), end, left.tokens.end(), canonically_before);
    std::sort(left.tokens.begin(), end, canonically_before);
}

Weigher weigher_of(const Left& left) {
    double maximum = left.tokens.front().value;
    for (const Token& token : left.tokens) maximum = std::max(maximum, token.value);
    return {maximum, 1.0 / left.temperature};
}

Weights weights_of(const Left& left) {
    Weights result;
    result.weigh = weigher_of(left);
    result.masses.reserve(left.tokens.size());
    for (const Token& token : left.tokens) {
        result.masses.push_back(result.weigh.mass(token.value));
        result.total += result.masses.back();
    }
    return result;
}

Mass total_mass(const Left& left, const Weigher& weigh) {
    Mass total = 0;
    for (const Token& token : left.tokens) total += weigh.mass(token.value);
    return total;
}

EntropySums entropy_sums(const Left& left, const Weigher& weigh) {
    EntropySums sums;
    for (const Token& token : left.tokens) sums.add(weigh, token.value, 1);
    return sums;
}

std::vector<ValueClass> classes_of(const std::vector<Token>& tokens) {
    std::vector<double> values;
    values.reserve(tokens.size());
    for (const Token& token : tokens) values.push_back(token.value);
    if (!std::is_sorted(values.begin(), values.end(), std::greater<>())) {
        std::sort(values.begin(), values.end(), std::greater<>());
    }
    std::vector<ValueClass> classes;
    for (const double value : values) {
        if (classes.empty() || classes.back().value != value) classes.push_back({value, 0});
        ++classes.back().count;
    }
    return classes;
}

}  // namespace croupier::sampler::reference
