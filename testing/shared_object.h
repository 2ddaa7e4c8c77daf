// Memory shared by a test and the processes that it forks.
#pragma once

#include <sys/mman.h>

#include <new>

namespace croupier::testing {

// An object that forked processes share.
template <typename T>
class Shared {
  public:
    Shared()
        : object_(new (::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                      T{}) {}
    ~Shared() { ::munmap(object_, sizeof(T)); }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    T* operator->() const { return object_; }
    T& operator*() const { return *object_; }

  private:
    T* object_;
};

}  // namespace croupier::testing
