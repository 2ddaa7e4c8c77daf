#include "shm/capture_exchange.h"

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <new>
#include <utility>

#include "shm/stamped_file.h"

namespace croupier::shm {
namespace {

constexpr StampedKind kExchange{
    "capture exchange",
    {proto::kCaptureMagic, proto::kCaptureVersion, sizeof(proto::CaptureExchange)},
    {" has version ", ", this build speaks ", ""},
    {" says that it has ", " bytes, this build expects ", ""},
    Errc::corrupt_header};
static_assert(offsetof(proto::CaptureExchange, magic) == offsetof(Stamp, magic) &&
              offsetof(proto::CaptureExchange, version) == offsetof(Stamp, version) &&
              offsetof(proto::CaptureExchange, bytes) == offsetof(Stamp, bytes));

const FileOwnership kOwnersAlone{0600, ""};

std::string exchange_path(const std::string& directory, const std::string& instance) {
    return directory + "/croupier-" + instance + ".capture";
}

std::string captured_path(const std::string& directory, const std::string& instance) {
    return directory + "/croupier-" + instance + ".captured";
}

}  // namespace

std::vector<std::string> CaptureExchange::paths(const std::string& directory, const std::string& instance) {
    return {exchange_path(directory, instance), captured_path(directory, instance)};
}

void CaptureExchange::remove(const std::string& directory, const std::string& instance) {
    for (const std::string& path : paths(directory, instance)) ::unlink(path.c_str());
}

Result<CaptureExchange> CaptureExchange::create(const std::string& directory, const std::string& instance) {
    remove(directory, instance);
    const std::string path = exchange_path(directory, instance);
    CROUPIER_TRY_VALUE(file, create_unnamed(directory, sizeof(proto::CaptureExchange), kOwnersAlone));
    CROUPIER_TRY(allocate(file, sizeof(proto::CaptureExchange), directory));
    CROUPIER_TRY_VALUE(mapping, map_file(file, sizeof(proto::CaptureExchange), Access::read_write, path));
    auto* words = new (mapping.get_address()) proto::CaptureExchange{};
    words->magic = proto::kCaptureMagic;
    words->version = proto::kCaptureVersion;
    words->bytes = sizeof(proto::CaptureExchange);
    CROUPIER_TRY(publish_name(file, path));
    return CaptureExchange(std::move(file), std::move(mapping), directory,
                           captured_path(directory, instance));
}

Result<CaptureExchange> CaptureExchange::attach(const std::string& directory, const std::string& instance) {
    CROUPIER_TRY_VALUE(opened,
                       open_stamped(exchange_path(directory, instance), Access::read_write, kExchange));
    return CaptureExchange(std::move(opened.file), std::move(opened.mapping), directory,
                           captured_path(directory, instance));
}

Result<bool> CaptureExchange::leave(std::span<const std::byte> captured) const {
    CROUPIER_TRY_VALUE(file, create_unnamed(directory_, captured.size(), kOwnersAlone));
    // Written, not mapped: a full file system is an error here, and no signal.
    for (std::size_t done = 0; done < captured.size();) {
        const auto rest = captured.subspan(done);
        const auto written = ::pwrite(file.get(), rest.data(), rest.size(), static_cast<off_t>(done));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return system_failure("cannot write", captured_, written == 0 ? EIO : errno);
        done += static_cast<std::size_t>(written);
    }
    return publish_name(file, captured_);
}

Result<std::optional<std::vector<std::byte>>> CaptureExchange::take() const {
    using Taken = std::optional<std::vector<std::byte>>;
    auto file = open_file(captured_, Access::read_only);
    if (!file && file.error().code == Errc::not_found) return Taken();
    if (!file) return file.error();
    ::unlink(captured_.c_str());
    CROUPIER_TRY_VALUE(size, file_size(file.value(), captured_));
    std::vector<std::byte> bytes(size);
    for (std::size_t done = 0; done < bytes.size();) {
        const auto got =
            ::pread(file.value().get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return system_failure("cannot read", captured_, got == 0 ? EIO : errno);
        done += static_cast<std::size_t>(got);
    }
    return Taken(std::move(bytes));
}

}  // namespace croupier::shm
