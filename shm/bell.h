// The daemon's bell: clients and writers ring it, idle samplers sleep on it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "proto/bell.h"
#include "shm/file.h"

namespace croupier::shm {

std::string bell_path(const std::string& directory, const std::string& instance);

class Bell {
  public:
    // Takes over the file of an earlier daemon when its content is sound: clients that live through a
    // restart keep ringing the page that they have mapped.
    static Result<Bell> create_or_adopt(const std::string& directory, const std::string& instance,
                                        const FileOwnership& ownership);
    static Result<Bell> attach(const std::string& directory, const std::string& instance);

    void ring();
    std::uint32_t seen() const;
    // Sleeps until the bell rings after `seen` was read, or for `timeout`.
    void sleep(std::uint32_t sampler, std::uint32_t seen, std::chrono::nanoseconds timeout);
    // Of the daemon: makes the page whole again, and its header right, whatever somebody who may write to the
    // file has done to it: who attaches next would refuse it otherwise.
    void mend();
    // This process's page is nobody else's any more.
    bool lost() const { return mapping_.lost(); }
    // For a sampler that was killed in its sleep.
    void forget_sleeper(std::uint32_t sampler);

  private:
    Bell(FileDescriptor file, Mapping mapping) : file_(std::move(file)), mapping_(std::move(mapping)) {}
    static Result<Bell> open(const std::string& path);
    static Result<Bell> adopt(FileDescriptor file, const std::string& path, const FileOwnership& ownership);
    proto::BellPage& page() const { return *static_cast<proto::BellPage*>(mapping_.get_address()); }

    FileDescriptor file_;
    Mapping mapping_;
};

}  // namespace croupier::shm
