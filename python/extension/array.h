// An array that Python gave: by the buffer protocol, or by DLPack where it lies on a GPU or has no buffer.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "python/extension/failure.h"

namespace croupier::python {

using ElementType = nb::dlpack::dtype;

constexpr ElementType element(nb::dlpack::dtype_code code, std::uint8_t bits) {
    return {static_cast<std::uint8_t>(code), bits, 1};
}
constexpr ElementType kFloat32 = element(nb::dlpack::dtype_code::Float, 32);
constexpr ElementType kFloat16 = element(nb::dlpack::dtype_code::Float, 16);
constexpr ElementType kBfloat16 = element(nb::dlpack::dtype_code::Bfloat, 16);
constexpr ElementType kUint16 = element(nb::dlpack::dtype_code::UInt, 16);
constexpr ElementType kInt32 = element(nb::dlpack::dtype_code::Int, 32);
constexpr ElementType kUint32 = element(nb::dlpack::dtype_code::UInt, 32);
constexpr ElementType kInt64 = element(nb::dlpack::dtype_code::Int, 64);
constexpr ElementType kUint64 = element(nb::dlpack::dtype_code::UInt, 64);

std::string name_of(ElementType type);

constexpr std::int32_t kHost = -1;

enum class Use { read, write };

// Keeps what it shows; made and destroyed with the GIL.
class Array {
  public:
    // `name` as it stands in errors.
    Array(nb::handle source, std::string name, Use use = Use::read);
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;

    static bool is_one(nb::handle source);

    const std::string& name() const { return name_; }
    void* data() const { return data_; }
    ElementType type() const { return type_; }
    std::int32_t device() const { return device_; }  // kHost, or a CUDA device's number
    std::size_t dimensions() const { return shape_.size(); }
    std::size_t length(std::size_t dimension) const { return static_cast<std::size_t>(shape_[dimension]); }
    std::int64_t stride(std::size_t dimension) const { return strides_[dimension]; }  // in elements
    std::string shape_text() const;

    // These throw what is wrong and what would be right.
    void require_dimensions(std::size_t count, const char* meaning) const;
    void require_host() const;
    // Along its last dimension.
    void require_contiguous() const;
    // Of a grammar mask of so many words of 32 ids, or of so many of several, one after another.
    const std::uint32_t* mask_words(std::size_t words) const;
    const std::uint32_t* mask_words_of_rows(std::size_t first, std::size_t count, std::size_t words) const;

  private:
    void read_buffer(nb::handle source, Use use);
    void read_dlpack(nb::handle source);
    void require_mask(std::size_t dimensions, std::size_t words) const;

    std::string name_;
    struct Release {
        void operator()(Py_buffer* buffer) const {
            PyBuffer_Release(buffer);
            delete buffer;
        }
    };
    std::unique_ptr<Py_buffer, Release> buffer_;
    nb::ndarray<> tensor_;
    void* data_ = nullptr;
    ElementType type_{};
    std::int32_t device_ = kHost;
    std::vector<std::int64_t> shape_;
    std::vector<std::int64_t> strides_;
};

}  // namespace croupier::python
