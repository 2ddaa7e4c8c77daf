// Where the supervisor asks for a decision and a sampler leaves it. Both files are the daemon's own: they
// hold what users said.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "proto/capture.h"
#include "shm/file.h"

namespace croupier::shm {

class CaptureExchange {
  public:
    // Replaces what a dead daemon left; the caller holds the instance's lock.
    static Result<CaptureExchange> create(const std::string& directory, const std::string& instance);
    static Result<CaptureExchange> attach(const std::string& directory, const std::string& instance);
    // Both files' names.
    static std::vector<std::string> paths(const std::string& directory, const std::string& instance);
    static void remove(const std::string& directory, const std::string& instance);

    proto::CaptureExchange& words() const {
        return *static_cast<proto::CaptureExchange*>(mapping_.get_address());
    }

    // A sampler's side: the decision's bytes under their name, at once or not at all. Fails where another
    // sampler was first.
    Result<bool> leave(std::span<const std::byte> captured) const;
    // The supervisor's: takes what was left away; nothing: there is none.
    Result<std::optional<std::vector<std::byte>>> take() const;

  private:
    CaptureExchange(FileDescriptor file, Mapping mapping, std::string directory, std::string captured)
        : file_(std::move(file)),
          mapping_(std::move(mapping)),
          directory_(std::move(directory)),
          captured_(std::move(captured)) {}

    FileDescriptor file_;
    Mapping mapping_;
    std::string directory_;
    std::string captured_;
};

}  // namespace croupier::shm
