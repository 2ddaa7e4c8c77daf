// See cuda_runtime_api.h beside it.
#pragma once

#include "gpu_writer/element_codes.h"
#include "proto/logit_codes.h"

// NOLINTBEGIN: the names are CUDA's.
struct __half {
    unsigned short bits;
};
inline __half __ushort_as_half(unsigned short bits) {
    return {bits};
}
inline unsigned short __half_as_ushort(__half value) {
    return value.bits;
}
inline float __half2float(__half value) {
    return croupier::gpu_writer::fp16_value(value.bits);
}
inline __half __float2half_rn(float value) {
    return {croupier::proto::fp16_code(value)};
}
// NOLINTEND
