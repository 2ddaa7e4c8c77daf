#include "tools/whole_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace croupier::tools {

namespace fs = std::filesystem;

WholeFile::WholeFile(std::string path) : path_(std::move(path)), place_(path_) {
    std::error_code unknown;
    const fs::file_status there = fs::status(path_, unknown);
    const bool is_replaced = !fs::exists(there) || fs::is_regular_file(there);
    if (is_replaced && fs::is_symlink(path_, unknown)) place_ = fs::weakly_canonical(path_).string();
    written_ = is_replaced ? place_ + ".new" : place_;
    stream_.open(written_, std::ios::binary);
    if (!stream_) fail();
    is_pending_ = is_replaced;
}

WholeFile::~WholeFile() {
    if (is_pending_) (void)std::remove(written_.c_str());
}

void WholeFile::put_in_place() {
    stream_.close();
    if (!stream_ || (is_pending_ && std::rename(written_.c_str(), place_.c_str()) != 0)) fail();
    is_pending_ = false;
}

void WholeFile::fail() const {
    throw std::runtime_error("cannot write " + path_ + ": " + std::strerror(errno));
}

}  // namespace croupier::tools
