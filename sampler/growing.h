// Arrays that grow with a sequence: by half, so that thousands of sequences waste a fifth of their memory on
// the average, not a third; a history that does not grow takes none.
#pragma once

#include <cstddef>
#include <vector>

namespace croupier::sampler {

template <typename T>
void reserve_growing(std::vector<T>& array, std::size_t size) {
    constexpr std::size_t kFirst = 32;
    if (size <= array.capacity()) return;
    const std::size_t grown = array.capacity() + array.capacity() / 2 + kFirst;
    array.reserve(size > grown ? size : grown);
}

template <typename T>
void push_growing(std::vector<T>& array, T value) {
    reserve_growing(array, array.size() + 1);
    array.push_back(value);
}

template <typename T>
std::size_t bytes_of(const std::vector<T>& array) {
    return array.capacity() * sizeof(T);
}

}  // namespace croupier::sampler
