// A temporary directory in shared memory, and the files of a session as a daemon creates them.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

#include "shm/segment.h"

namespace croupier::testing {

class ShmDirectory {
  public:
    ShmDirectory() {
        char name[] = "/dev/shm/croupier-test-XXXXXX";
        if (::mkdtemp(name) == nullptr) throw std::runtime_error("cannot create a directory in /dev/shm");
        path_ = name;
    }
    ShmDirectory(const ShmDirectory&) = delete;
    ShmDirectory& operator=(const ShmDirectory&) = delete;
    ~ShmDirectory() { std::filesystem::remove_all(path_); }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

template <typename T>
T need(shm::Result<T> result) {
    if (!result) throw std::runtime_error(result.error().message);
    return std::move(result).value();
}

struct SessionFiles {
    explicit SessionFiles(const proto::Geometry& geometry)
        : segment(need(shm::Segment::create({directory.path(), "test", 1, "session", geometry, {}, {}}))) {}

    ShmDirectory directory;
    shm::Segment segment;
};

inline proto::Geometry small_geometry() {
    proto::Geometry geometry;
    geometry.vocab = 1000;
    geometry.tp = 1;
    geometry.max_batch = 8;
    geometry.slots = 2;
    geometry.max_sequences = 16;
    geometry.max_length = 64;
    proto::fill_even_shards(geometry);
    return geometry;
}

}  // namespace croupier::testing
