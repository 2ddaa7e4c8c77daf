// A hotness file is read as it was written; every lie in one is refused, naming the file, the field, what it
// holds and what would be right.
#include "shm/hotness_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "hot_sets/ranking.h"

using namespace croupier;
using namespace croupier::shm;
using proto::HotnessFileHeader;
using proto::HotnessOrder;

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kVocab = 501;  // odd: the ids' end is not where the counts would be aligned
constexpr const char* kName = "some.hot";

HotnessOrder some_order() {
    std::mt19937 random(5);
    std::vector<double> counts(kVocab);
    for (double& count : counts) count = std::uniform_int_distribution(0, 40)(random) * 0.25;
    return hot_sets::rank_by_count("Modèle 1", 0.05, counts);
}

Error refusal_of(const Bytes& bytes) {
    auto decoded = decode_hotness(bytes, kName);
    if (decoded) return {Errc{}, "accepted"};
    return decoded.error();
}

// What the file holds after a change that its author signed: a checksum does not help against it.
Bytes signed_with(const std::function<void(HotnessFileHeader&, Bytes&)>& change) {
    Bytes bytes = encode_hotness(some_order());
    HotnessFileHeader header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    change(header, bytes);
    std::memcpy(bytes.data(), &header, sizeof header);
    header.checksum = proto::hotness_checksum(bytes.data(), bytes.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
}

template <typename Value>
void put(Bytes& bytes, std::size_t at, Value value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

class Directory {
  public:
    Directory() : path_(std::filesystem::temp_directory_path() / "croupier-hotness-XXXXXX") {
        std::string text = path_;
        REQUIRE(::mkdtemp(text.data()) != nullptr);
        path_ = text;
    }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    ~Directory() { std::filesystem::remove_all(path_); }

    std::string file(const char* name) const { return path_ / name; }
    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
    }
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

void write(const std::string& path, const Bytes& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

Bytes read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    Bytes bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
}

}  // namespace

TEST_CASE("a hotness file is read as it was written") {
    const Directory directory;
    const std::string path = directory.file("a.hot");
    const HotnessOrder order = some_order();
    REQUIRE(save_hotness(path, order));
    const auto loaded = load_hotness(path, kVocab);
    REQUIRE(loaded);
    CHECK(loaded.value().order == order);
    CHECK(loaded.value().header.vocab == kVocab);
    CHECK(loaded.value().header.counted == order.counted());
    CHECK(directory.files() == 1);
    CHECK(read(path) == encode_hotness(order));
    CHECK(std::filesystem::file_size(path) == 160 + kVocab * 12);
}

TEST_CASE("every byte of a hotness file that flips is noticed") {
    Bytes bytes = encode_hotness(some_order());
    REQUIRE(refusal_of(bytes).message == "accepted");
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        for (const std::byte flip : {std::byte{1}, std::byte{0x80}}) {
            bytes[at] ^= flip;
            INFO("byte " << at);
            REQUIRE_THAT(refusal_of(bytes).message, Catch::StartsWith("hotness file some.hot: "));
            bytes[at] ^= flip;
        }
    }
}

TEST_CASE("a hotness file that is too short or too long is refused") {
    const Bytes whole = encode_hotness(some_order());
    for (std::size_t size = 0; size < whole.size(); ++size) {
        // A copy of exactly this size, so that a sanitizer sees a read past its end.
        const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        REQUIRE(refusal_of(cut).code == Errc::wrong_size);
    }
    Bytes longer = whole;
    longer.push_back(std::byte{0});
    const Error error = refusal_of(longer);
    CHECK(error.code == Errc::wrong_size);
    CHECK_THAT(error.message, Catch::Contains("has 6173 bytes, too many") && Catch::Contains("takes 6172"));
}

TEST_CASE("a header that lies under a right checksum is refused by field, value and what would be right") {
    struct Lie {
        const char* field;
        Errc code;
        std::function<void(HotnessFileHeader&)> tell;
        std::string says;
    };
    const std::vector<Lie> lies = {
        {"magic", Errc::bad_magic, [](auto& h) { h.magic = 0x1234; },
         "magic is 0x1234, should be 0x3130544f48505243"},
        {"an older version", Errc::wrong_version, [](auto& h) { h.version = 0; },
         "version is 0, should be 1"},
        {"a newer version", Errc::wrong_version, [](auto& h) { h.version = 2; }, "version is 2, should be 1"},
        {"header_bytes", Errc::wrong_size, [](auto& h) { h.header_bytes = 168; },
         "header_bytes is 168, should be 160"},
        {"no vocabulary", Errc::bad_argument, [](auto& h) { h.vocab = 0; },
         "vocab is 0, should be 1 to 1048576"},
        {"a huge vocabulary", Errc::bad_argument, [](auto& h) { h.vocab = 0xFFFFFFFFU; },
         "vocab is 4294967295, should be 1 to 1048576"},
        {"a larger vocabulary", Errc::wrong_size, [](auto& h) { h.vocab = kVocab + 1; },
         "cut short: a vocabulary of 502 ids takes 6184"},
        {"a smaller vocabulary", Errc::wrong_size, [](auto& h) { h.vocab = kVocab - 1; },
         "too many: a vocabulary of 500 ids takes 6160"},
        {"model_bytes", Errc::corrupt_header, [](auto& h) { h.model_bytes = 113; },
         "model_bytes is 113, should be 1 to 112"},
        {"a name without its end", Errc::corrupt_header, [](auto& h) { h.model_bytes = 8; },
         "model has the byte 49 at offset 8, should be 0 after its 8 bytes"},
        {"a name with more than its end", Errc::bad_argument, [](auto& h) { h.model_bytes = 10; },
         "model has the byte 0 at offset 9"},
        {"no name", Errc::bad_argument,
         [](auto& h) {
             h.model_bytes = 0;
             std::fill(std::begin(h.model), std::end(h.model), '\0');
         },
         "model is empty"},
        {"a name that is no UTF-8", Errc::bad_argument, [](auto& h) { h.model[1] = '\xFF'; },
         "model has the byte 255 at offset 1"},
        {"counted", Errc::bad_argument, [](auto& h) { h.counted += 0.25; }, "counted is "},
        {"smoothing", Errc::bad_argument, [](auto& h) { h.smoothing = -1; },
         "smoothing is -1, should be 0 to 1e+06"},
    };
    for (const Lie& lie : lies) {
        INFO(lie.field);
        const Error error = refusal_of(signed_with([&](auto& header, Bytes&) { lie.tell(header); }));
        CHECK(errc_name(error.code) == std::string(errc_name(lie.code)));
        CHECK_THAT(error.message, Catch::StartsWith("hotness file some.hot: ") && Catch::Contains(lie.says));
    }
}

TEST_CASE("counts and ids that lie under a right checksum are refused") {
    const std::size_t ids_at = proto::hotness_ids_offset(kVocab);
    const HotnessOrder order = some_order();
    const Error twice =
        refusal_of(signed_with([&](auto&, Bytes& bytes) { put(bytes, ids_at + 4, order.ids[0]); }));
    CHECK_THAT(twice.message,
               Catch::Contains("ids[1] is " + std::to_string(order.ids[0]) + ", which came before"));
    const Error outside =
        refusal_of(signed_with([&](auto&, Bytes& bytes) { put(bytes, ids_at, std::int32_t{kVocab}); }));
    CHECK_THAT(outside.message, Catch::Contains("ids[0] is 501, should be 0 to 500"));
    const Error grows = refusal_of(signed_with(
        [&](auto&, Bytes& bytes) { put(bytes, sizeof(HotnessFileHeader) + std::size_t{8} * 400, 1e3); }));
    CHECK_THAT(grows.message, Catch::Contains("counts[400] is 1000, more than"));
    const Error checksum = refusal_of([] {
        Bytes bytes = encode_hotness(some_order());
        bytes.back() ^= std::byte{1};
        return bytes;
    }());
    CHECK(checksum.code == Errc::corrupt_header);
    CHECK_THAT(checksum.message, Catch::Contains("checksum is 0x") && Catch::Contains(", should be 0x"));
}

TEST_CASE("a hotness file of another vocabulary is refused, naming both and its model") {
    const Directory directory;
    const std::string path = directory.file("a.hot");
    REQUIRE(save_hotness(path, some_order()));
    const auto loaded = load_hotness(path, 502);
    REQUIRE_FALSE(loaded);
    CHECK(loaded.error().code == Errc::bad_argument);
    CHECK_THAT(loaded.error().message,
               Catch::Contains(path + ": vocab is 501, should be 502") && Catch::Contains("'Modèle 1'"));
    CHECK(load_hotness(path, std::nullopt));
}

TEST_CASE("a path that is not a regular file of a possible size is refused before it is read") {
    const Directory directory;
    const auto missing = load_hotness(directory.file("none.hot"), std::nullopt);
    REQUIRE_FALSE(missing);
    CHECK(missing.error().code == Errc::not_found);
    CHECK_FALSE(load_hotness(directory.path(), std::nullopt));
    const std::string fifo = directory.file("fifo");
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    CHECK_FALSE(load_hotness(fifo, std::nullopt));
    const std::string huge = directory.file("huge");
    write(huge, {});
    std::filesystem::resize_file(huge, 1ULL << 40U);
    const auto refused = load_hotness(huge, std::nullopt);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == Errc::wrong_size);
    CHECK_THAT(refused.error().message, Catch::Contains("has 1099511627776 bytes"));
}

TEST_CASE("a hotness file is found behind a link") {
    const Directory directory;
    REQUIRE(save_hotness(directory.file("a.hot"), some_order()));
    std::filesystem::create_symlink("a.hot", directory.path() / "link.hot");
    CHECK(load_hotness(directory.file("link.hot"), kVocab));
}

TEST_CASE("a hotness file is replaced whole, or not at all") {
    const Directory directory;
    const std::string path = directory.file("a.hot");
    write(path, Bytes(10));
    HotnessOrder order = some_order();
    order.ids[0] = -1;
    REQUIRE_FALSE(save_hotness(path, order));
    CHECK(read(path) == Bytes(10));
    REQUIRE(save_hotness(path, some_order()));
    CHECK(load_hotness(path, kVocab));
    CHECK(directory.files() == 1);
    const auto nowhere = save_hotness(directory.file("no/such/a.hot"), some_order());
    REQUIRE_FALSE(nowhere);
    CHECK(nowhere.error().code == Errc::not_found);
}

TEST_CASE(
    "a hotness file that cannot be written to its end leaves nothing behind, and the old one in place") {
    const Directory directory;
    const std::string path = directory.file("a.hot");
    write(path, Bytes(10));
    // A limit on the size of files fails the write as a full disk would.
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    rlimit little = before;
    little.rlim_cur = 1000;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &little) == 0);
    const auto saved = save_hotness(path, some_order());
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    std::signal(SIGXFSZ, handler);
    REQUIRE_FALSE(saved);
    CHECK_THAT(saved.error().message, Catch::StartsWith("cannot write " + path));
    CHECK(read(path) == Bytes(10));
    CHECK(directory.files() == 1);
}

TEST_CASE("a hotness file never replaces what is no file") {
    const Directory directory;
    const std::string fifo = directory.file("fifo");
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    const auto saved = save_hotness(fifo, some_order());
    REQUIRE_FALSE(saved);
    CHECK_THAT(saved.error().message, Catch::Contains("is no regular file"));
    CHECK(std::filesystem::is_fifo(fifo));
    CHECK(directory.files() == 1);
}
