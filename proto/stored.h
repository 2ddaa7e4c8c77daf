// Elements that lie in shared memory as far apart as their maker's build says, which may be another build of
// the same major version: its elements may have fields at their end that this build does not know, or lack
// some that it knows. A field that is lacking reads as zero, which means "off".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <span>
#include <type_traits>

namespace croupier::proto {

// One of them. It is read and written whole, by copies.
template <typename T>
class Stored {
  public:
    using Value = std::remove_const_t<T>;
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    static_assert(std::is_trivially_copyable_v<Value>);

    Stored(Byte* place, std::size_t bytes) : place_(place), bytes_(bytes) {}

    Value load() const {
        Value value{};
        // A length that the compiler knows, where it may: this is every column's way.
        if (bytes_ >= sizeof(Value)) {
            std::memcpy(&value, place_, sizeof(Value));
        } else {
            std::memcpy(&value, place_, bytes_);
        }
        return value;
    }
    operator Value() const { return load(); }

    // What the element's maker knows of and this build does not becomes zero.
    void store(const Value& value) const requires(!std::is_const_v<T>) {
        if (bytes_ == sizeof(Value)) {
            std::memcpy(place_, &value, sizeof(Value));
            return;
        }
        const std::size_t known = std::min(bytes_, sizeof(Value));
        std::memcpy(place_, &value, known);
        std::memset(place_ + known, 0, bytes_ - known);
    }

    // Whether all that its maker knows of and this build does not is off.
    bool is_known() const {
        return std::all_of(place_ + std::min(bytes_, sizeof(Value)), place_ + bytes_,
                           [](std::byte byte) { return byte == std::byte{0}; });
    }

    // Where it begins; all of a T is there only where bytes() says so.
    T* place() const { return reinterpret_cast<T*>(place_); }
    std::size_t bytes() const { return bytes_; }

  private:
    Byte* place_;
    std::size_t bytes_;
};

template <typename T>
class StoredArray {
  public:
    using Byte = typename Stored<T>::Byte;

    StoredArray() = default;
    StoredArray(Byte* first, std::size_t stride, std::size_t count)
        : first_(first), stride_(stride), count_(count) {}
    // Of this process's own.
    StoredArray(std::span<T> own)
        : first_(reinterpret_cast<Byte*>(own.data())), stride_(sizeof(T)), count_(own.size()) {}
    operator StoredArray<const T>() const requires(!std::is_const_v<T>) { return {first_, stride_, count_}; }

    std::size_t size() const { return count_; }
    bool empty() const { return count_ == 0; }
    std::size_t stride() const { return stride_; }
    Stored<T> operator[](std::size_t index) const { return {first_ + index * stride_, stride_}; }
    StoredArray part(std::size_t from, std::size_t count) const {
        return {first_ + from * stride_, stride_, count};
    }

    class Iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = typename Stored<T>::Value;
        using difference_type = std::ptrdiff_t;
        using pointer = const value_type*;
        using reference = value_type;

        Iterator(const StoredArray* array, std::size_t index) : array_(array), index_(index) {}
        value_type operator*() const { return (*array_)[index_].load(); }
        Iterator& operator++() {
            ++index_;
            return *this;
        }
        Iterator operator++(int) {
            Iterator before = *this;
            ++index_;
            return before;
        }
        bool operator==(const Iterator& other) const { return index_ == other.index_; }

      private:
        const StoredArray* array_;
        std::size_t index_;
    };
    Iterator begin() const { return {this, 0}; }
    Iterator end() const { return {this, count_}; }

  private:
    Byte* first_ = nullptr;
    std::size_t stride_ = sizeof(T);
    std::size_t count_ = 0;
};

}  // namespace croupier::proto
