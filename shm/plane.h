// The table that the supervisor shares with its samplers, and that `croupier status` reads, alive or dead.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "proto/plane.h"
#include "shm/file.h"
#include "shm/stamped_file.h"

namespace croupier::shm {

std::string plane_path(const std::string& directory, const std::string& instance);

class Plane {
  public:
    // Replaces the file of a dead daemon; the caller holds the instance's lock. Nobody but its owner may open
    // it: who could write to it would decide over samplers, and who could read it would know all segments'
    // names.
    static Result<Plane> create(const std::string& directory, const std::string& instance,
                                std::uint32_t samplers, std::uint32_t threads_each);
    static Result<Plane> attach(const std::string& directory, const std::string& instance, Access access);
    // Of an open file, by another one with locks of its own.
    static Result<Plane> attach(int descriptor, Access access);

    proto::PlaneHeader& header() const { return *static_cast<proto::PlaneHeader*>(mapping_.get_address()); }
    // [sampler * threads + thread]
    std::span<proto::JournalRing> journals() const;
    // Held by the daemon while it lives, and by each sampler on its own byte.
    bool hold_daemon() { return try_lock_byte(file_, 0); }
    bool daemon_alive() const { return byte_is_locked(file_, 0); }
    // Nobody can find it any more.
    bool removed() const { return is_removed(file_); }
    // Without its locks, for a process that attaches to it.
    Result<FileDescriptor> open_again() const { return shm::open_again(file_.get(), Access::read_write); }
    bool hold_sampler(std::uint32_t index) { return try_lock_byte(file_, 1 + index); }
    bool sampler_alive(std::uint32_t index) const { return byte_is_locked(file_, 1 + index); }

  private:
    static Result<Plane> checked(StampedFile opened, const std::string& path);
    Plane(FileDescriptor file, Mapping mapping) : file_(std::move(file)), mapping_(std::move(mapping)) {}

    FileDescriptor file_;
    Mapping mapping_;
};

}  // namespace croupier::shm
