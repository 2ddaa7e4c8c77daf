#include "shm/hotness_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "shm/file.h"

namespace croupier::shm {
namespace {

using proto::HotnessFileHeader;
using proto::HotnessOrder;

Error file_failure(const std::string& what, const std::string& path) {
    const int number = errno;
    Errc code = Errc::system_error;
    if (number == ENOENT) code = Errc::not_found;
    if (number == EACCES || number == EPERM) code = Errc::permission_denied;
    if (number == ENOSPC || number == EDQUOT) code = Errc::no_memory;
    return {code, "cannot " + what + " " + path + ": " + std::generic_category().message(number)};
}

auto refuse(Errc code, const std::string& name, const std::string& why) {
    return fail(code, "hotness file " + name + ": " + why);
}

std::string hex(std::uint64_t value) {
    char text[16];
    return "0x" + std::string(text, std::to_chars(text, text + sizeof text, value, 16).ptr);
}

std::string is_not(const char* field, const std::string& value, const std::string& right) {
    return std::string(field) + " is " + value + ", should be " + right;
}

// What says whether the bytes can be read as this version's file at all.
Result<bool> check_shape(const HotnessFileHeader& header, std::size_t size, const std::string& name) {
    if (header.magic != proto::kHotnessMagic) {
        return refuse(Errc::bad_magic, name,
                      is_not("magic", hex(header.magic), hex(proto::kHotnessMagic)) +
                          "; is it a file that `croupier hotset build` wrote?");
    }
    if (header.version != proto::kHotnessVersion) {
        return refuse(Errc::wrong_version, name,
                      is_not("version", std::to_string(header.version),
                             std::to_string(proto::kHotnessVersion) + " for this build; build it again"));
    }
    if (header.header_bytes != sizeof(HotnessFileHeader)) {
        return refuse(Errc::wrong_size, name,
                      is_not("header_bytes", std::to_string(header.header_bytes),
                             std::to_string(sizeof(HotnessFileHeader))));
    }
    if (header.vocab == 0 || header.vocab > proto::kMaxVocab) {
        return refuse(
            Errc::bad_argument, name,
            is_not("vocab", std::to_string(header.vocab), "1 to " + std::to_string(proto::kMaxVocab)));
    }
    const std::size_t right = proto::hotness_file_bytes(header.vocab);
    if (size == right) return true;
    return refuse(Errc::wrong_size, name,
                  "it has " + std::to_string(size) + " bytes, " +
                      (size < right ? "cut short: " : "too many: ") + "a vocabulary of " +
                      std::to_string(header.vocab) + " ids takes " + std::to_string(right));
}

Result<bool> check_model(const HotnessFileHeader& header, const std::string& name) {
    if (header.model_bytes > proto::kMaxModelName) {
        return refuse(Errc::corrupt_header, name,
                      is_not("model_bytes", std::to_string(header.model_bytes),
                             "1 to " + std::to_string(proto::kMaxModelName)));
    }
    for (std::size_t i = header.model_bytes; i < proto::kMaxModelName; ++i) {
        if (header.model[i] == 0) continue;
        return refuse(Errc::corrupt_header, name,
                      "model has the byte " + std::to_string(static_cast<unsigned char>(header.model[i])) +
                          " at offset " + std::to_string(i) + ", should be 0 after its " +
                          std::to_string(header.model_bytes) + " bytes");
    }
    return true;
}

HotnessOrder order_in(const HotnessFileHeader& header, std::span<const std::byte> bytes) {
    HotnessOrder order{{header.model, header.model_bytes},
                       header.smoothing,
                       std::vector<std::int32_t>(header.vocab),
                       std::vector<double>(header.vocab)};
    std::memcpy(order.counts.data(), bytes.data() + sizeof header, order.counts.size() * sizeof(double));
    std::memcpy(order.ids.data(), bytes.data() + proto::hotness_ids_offset(header.vocab),
                order.ids.size() * sizeof(std::int32_t));
    return order;
}

// Bounded before it is allocated: whatever the file claims to be, it is at most of the largest vocabulary.
Result<std::vector<std::byte>> read_whole(const FileDescriptor& file, const std::string& path) {
    CROUPIER_TRY_VALUE(size, file_size(file, path));
    constexpr std::size_t kMost = proto::hotness_file_bytes(proto::kMaxVocab);
    if (size > kMost) {
        return refuse(Errc::wrong_size, path,
                      "it has " + std::to_string(size) + " bytes; the largest vocabulary takes " +
                          std::to_string(kMost));
    }
    std::vector<std::byte> bytes(size);
    std::size_t got = 0;
    while (got < bytes.size()) {
        const ::ssize_t part = ::read(file.get(), bytes.data() + got, bytes.size() - got);
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return file_failure("read", path);
        if (part == 0) break;
        got += static_cast<std::size_t>(part);
    }
    bytes.resize(got);
    return bytes;
}

Result<bool> write_whole(const FileDescriptor& file, std::span<const std::byte> bytes,
                         const std::string& path) {
    while (!bytes.empty()) {
        const ::ssize_t part = ::write(file.get(), bytes.data(), bytes.size());
        if (part < 0 && errno == EINTR) continue;
        if (part < 0) return file_failure("write", path);
        bytes = bytes.subspan(static_cast<std::size_t>(part));
    }
    // mkostemp leaves it to its owner alone; daemon and engines may run as others, and it holds no secret.
    if (::fchmod(file.get(), 0644) != 0) return file_failure("chmod", path);
    if (::fsync(file.get()) != 0) return file_failure("sync", path);
    return true;
}

// Renaming over a device or a directory's name would replace more than a file.
Result<bool> check_replaceable(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) return true;
    if (S_ISREG(status.st_mode)) return true;
    return fail(Errc::bad_argument, path + " is no regular file; name one that may be replaced");
}

Result<bool> rename_and_sync(const std::string& from, const std::string& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) return file_failure("rename " + from + " to", to);
    // The new name lasts only once the directory does.
    const std::string directory = std::filesystem::path(to).parent_path().string();
    const FileDescriptor opened(
        ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.valid() || ::fsync(opened.get()) != 0) return file_failure("sync the directory of", to);
    return true;
}

}  // namespace

Result<HotnessFile> decode_hotness(std::span<const std::byte> bytes, const std::string& name) {
    HotnessFile file{};
    HotnessFileHeader& header = file.header;
    if (bytes.size() < sizeof header) {
        return refuse(Errc::wrong_size, name,
                      "it has " + std::to_string(bytes.size()) + " bytes, its header alone takes " +
                          std::to_string(sizeof header));
    }
    std::memcpy(&header, bytes.data(), sizeof header);
    CROUPIER_TRY(check_shape(header, bytes.size(), name));
    const std::uint64_t checksum = proto::hotness_checksum(bytes.data(), bytes.size());
    if (checksum != header.checksum) {
        return refuse(Errc::corrupt_header, name,
                      is_not("checksum", hex(header.checksum), hex(checksum)) +
                          " for what it holds; it was damaged or changed by hand, copy or build it again");
    }
    CROUPIER_TRY(check_model(header, name));
    file.order = order_in(header, bytes);
    if (auto fault = proto::order_fault(file.order)) return refuse(Errc::bad_argument, name, *fault);
    if (auto fault = proto::counted_fault(file.order, header.counted)) {
        return refuse(Errc::bad_argument, name, *fault);
    }
    return file;
}

std::vector<std::byte> encode_hotness(const HotnessOrder& order) {
    HotnessFileHeader header{};
    header.magic = proto::kHotnessMagic;
    header.version = proto::kHotnessVersion;
    header.header_bytes = sizeof header;
    header.vocab = static_cast<std::uint32_t>(order.ids.size());
    header.model_bytes = static_cast<std::uint32_t>(order.model.size());
    header.counted = order.counted();
    header.smoothing = order.smoothing;
    std::copy(order.model.begin(), order.model.end(), header.model);
    std::vector<std::byte> bytes(proto::hotness_file_bytes(header.vocab));
    std::memcpy(bytes.data() + sizeof header, order.counts.data(), order.counts.size() * sizeof(double));
    std::memcpy(bytes.data() + proto::hotness_ids_offset(header.vocab), order.ids.data(),
                order.ids.size() * sizeof(std::int32_t));
    std::memcpy(bytes.data(), &header, sizeof header);
    header.checksum = proto::hotness_checksum(bytes.data(), bytes.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
}

Result<HotnessFile> load_hotness(const std::string& path, std::optional<std::uint32_t> vocab) {
    // Not by open_file: a model's files are often links into a cache, which segments never are. Not to be
    // blocked by a FIFO of that name, file_size refuses it.
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file.valid()) return file_failure("open hotness file", path);
    CROUPIER_TRY_VALUE(bytes, read_whole(file, path));
    auto decoded = decode_hotness(bytes, path);
    if (!decoded) return decoded.error();
    const HotnessFileHeader& header = decoded.value().header;
    if (!vocab || *vocab == header.vocab) return decoded;
    return refuse(Errc::bad_argument, path,
                  is_not("vocab", std::to_string(header.vocab), std::to_string(*vocab)) +
                      " here; it was built for model '" + decoded.value().order.model + "'");
}

Result<bool> save_hotness(const std::string& path, const HotnessOrder& order) {
    if (auto fault = proto::order_fault(order)) return refuse(Errc::bad_argument, path, *fault);
    CROUPIER_TRY(check_replaceable(path));
    std::string temporary = path + ".XXXXXX";
    const FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
    if (!file.valid()) return file_failure("create a file beside", path);
    auto written = write_whole(file, encode_hotness(order), temporary);
    if (written) written = rename_and_sync(temporary, path);
    if (!written) ::unlink(temporary.c_str());
    return written;
}

}  // namespace croupier::shm
