// Words that other threads, blocks or processors read or write meanwhile.
#pragma once

namespace croupier::gpu_writer {

template <typename T>
__device__ T load_now(const T* from) {
    return *static_cast<const volatile T*>(from);
}

template <typename T>
__device__ void store_now(T* to, T value) {
    *static_cast<volatile T*>(to) = value;
}

}  // namespace croupier::gpu_writer
