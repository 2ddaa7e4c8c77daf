#include "python/extension/array.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

namespace croupier::python {
namespace {

using nb::dlpack::dtype_code;

// kDLCPU and kDLCUDAHost of DLPack: what a CPU reads.
bool is_host(int device_type) {
    return device_type == nb::device::cpu::value || device_type == nb::device::cuda_host::value;
}

// Of a buffer's format, in which the element's size is the buffer's own; nothing where it is no number of
// this machine's byte order.
std::optional<ElementType> type_of_format(std::string_view format, Py_ssize_t bytes) {
    if (!format.empty() && std::string_view("@=<").find(format[0]) != std::string_view::npos)
        format.remove_prefix(1);
    if (format.size() != 1) return std::nullopt;
    const auto bits = static_cast<std::uint8_t>(bytes * 8);
    if (std::string_view("efd").find(format[0]) != std::string_view::npos)
        return element(dtype_code::Float, bits);
    if (std::string_view("bhilqn").find(format[0]) != std::string_view::npos)
        return element(dtype_code::Int, bits);
    if (std::string_view("BHILQN").find(format[0]) != std::string_view::npos)
        return element(dtype_code::UInt, bits);
    if (format[0] == '?') return element(dtype_code::Bool, bits);
    return std::nullopt;
}

// Without the traceback, which what() has.
std::string text_of(const nb::python_error& error) {
    return type_name_of(error.value()) + ": " + nb::str(error.value()).c_str();
}

}  // namespace

std::string name_of(ElementType type) {
    const auto bits = std::to_string(type.bits);
    switch (static_cast<dtype_code>(type.code)) {
        case dtype_code::Int:
            return "int" + bits;
        case dtype_code::UInt:
            return "uint" + bits;
        case dtype_code::Float:
            return "float" + bits;
        case dtype_code::Bfloat:
            return "bfloat" + bits;
        case dtype_code::Bool:
            return "bool";
        default:
            return "another type of " + bits + " bits";
    }
}

bool Array::is_one(nb::handle source) {
    return PyObject_CheckBuffer(source.ptr()) != 0 || nb::hasattr(source, "__dlpack__");
}

Array::Array(nb::handle source, std::string name, Use use) : name_(std::move(name)) {
    if (!is_one(source)) {
        throw bad_argument(name_ + " is of type " + type_name_of(source) +
                           "; allowed: an array that has the buffer protocol or DLPack, as those of numpy "
                           "and torch");
    }
    bool on_host = true;
    if (nb::hasattr(source, "__dlpack_device__")) {
        const nb::object device = source.attr("__dlpack_device__")();
        on_host = is_host(nb::cast<int>(device[0]));
    }
    if (on_host && PyObject_CheckBuffer(source.ptr()) != 0) {
        read_buffer(source, use);
    } else {
        read_dlpack(source);
    }
}

void Array::read_buffer(nb::handle source, Use use) {
    auto taken = std::make_unique<Py_buffer>();
    if (PyObject_GetBuffer(source.ptr(), taken.get(), use == Use::write ? PyBUF_RECORDS : PyBUF_RECORDS_RO) !=
        0) {
        throw bad_argument(name_ + " gives no buffer of numbers (" + text_of(nb::python_error()) +
                           "); give bfloat16 as its bits, in an array of uint16" +
                           (use == Use::write ? ", and make it writable" : ""));
    }
    buffer_.reset(taken.release());
    const Py_buffer& view = *buffer_;
    const char* format = view.format == nullptr ? "B" : view.format;
    const auto type = type_of_format(format, view.itemsize);
    if (!type) {
        throw bad_argument("the elements of " + name_ + " have the format '" + format +
                           "'; allowed: numbers in this machine's byte order");
    }
    type_ = *type;
    data_ = view.buf;
    shape_.assign(view.shape, view.shape + view.ndim);
    for (int dimension = 0; dimension < view.ndim; ++dimension) {
        if (view.strides[dimension] % view.itemsize != 0) {
            throw bad_argument("neighbours in " + name_ + " are " + std::to_string(view.strides[dimension]) +
                               " bytes apart, which is no multiple of " + std::to_string(type_.bits / 8) +
                               "; give a copy that is contiguous");
        }
        strides_.push_back(view.strides[dimension] / view.itemsize);
    }
}

void Array::read_dlpack(nb::handle source) {
    try {
        const nb::object device = source.attr("__dlpack_device__")();
        // -1: the producer waits for nothing. The work is ordered by the stream that the caller names.
        const nb::object capsule = is_host(nb::cast<int>(device[0]))
                                       ? source.attr("__dlpack__")()
                                       : source.attr("__dlpack__")(nb::arg("stream") = -1);
        tensor_ = nb::cast<nb::ndarray<>>(capsule);
    } catch (const nb::python_error& error) {
        throw bad_argument(name_ + " gives no array by DLPack: " + text_of(error));
    } catch (const nb::cast_error&) {
        throw bad_argument(name_ + " gives no array by DLPack that this version understands");
    }
    const int device_type = tensor_.device_type();
    const bool managed = device_type == nb::device::cuda_managed::value;
    if (!is_host(device_type) && device_type != nb::device::cuda::value && !managed) {
        throw bad_argument("the place of " + name_ + " is a device of DLPack's type " +
                           std::to_string(device_type) + "; allowed: the host or CUDA");
    }
    type_ = tensor_.dtype();
    data_ = tensor_.data();
    device_ = is_host(device_type) ? kHost : tensor_.device_id();
    for (std::size_t dimension = 0; dimension < tensor_.ndim(); ++dimension) {
        shape_.push_back(static_cast<std::int64_t>(tensor_.shape(dimension)));
        strides_.push_back(tensor_.stride(dimension));
    }
}

std::string Array::shape_text() const {
    std::string text = "(";
    for (const std::int64_t each : shape_) text += (text.size() > 1 ? ", " : "") + std::to_string(each);
    return text + ")";
}

void Array::require_dimensions(std::size_t count, const char* meaning) const {
    if (dimensions() == count) return;
    throw bad_argument("the shape of " + name_ + " is " + shape_text() +
                       "; allowed: " + std::to_string(count) + "-D, " + meaning);
}

void Array::require_host() const {
    if (device_ == kHost) return;
    throw bad_argument("the place of " + name_ + " is CUDA device " + std::to_string(device_) +
                       "; allowed: the host's memory");
}

void Array::require_contiguous() const {
    const std::int64_t apart = strides_.back();
    if (apart == 1 || shape_.back() <= 1) return;
    throw bad_argument("neighbours in " + name_ + " are " + std::to_string(apart) +
                       " elements apart; allowed: 1: give a contiguous copy");
}

void Array::require_mask(std::size_t dimensions, std::size_t words) const {
    require_host();
    if ((type_ != kUint32 && type_ != kInt32) || this->dimensions() != dimensions ||
        length(dimensions - 1) != words) {
        throw bad_argument("the shape of " + name_ + " is " + shape_text() + " of " + name_of(type_) +
                           "; allowed: " + (dimensions == 2 ? "rows of " : "") + std::to_string(words) +
                           " words of uint32 or int32, a bit for each id");
    }
    require_contiguous();
}

const std::uint32_t* Array::mask_words(std::size_t words) const {
    require_mask(1, words);
    return static_cast<const std::uint32_t*>(data_);
}

const std::uint32_t* Array::mask_words_of_rows(std::size_t first, std::size_t count,
                                               std::size_t words) const {
    require_mask(2, words);
    const bool adjacent = count == 1 || stride(0) == static_cast<std::int64_t>(words);
    if (first + count > length(0) || !adjacent) {
        throw bad_argument("the shape of " + name_ + " is " + shape_text() + "; allowed: for rows " +
                           std::to_string(first) + " to " + std::to_string(first + count - 1) +
                           " of a window's masks, which follow each other");
    }
    return static_cast<const std::uint32_t*>(data_) + static_cast<std::int64_t>(first) * stride(0);
}

}  // namespace croupier::python
