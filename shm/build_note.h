// What a program or library of Croupier says of itself, as a line of text in its file: who may not run it can
// read it there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proto/segment_header.h"
#include "proto/wire.h"

namespace croupier::shm {

constexpr std::string_view kBuildNoteStart = "croupier-build: ";

struct BuildNote {
    std::array<char, 160> text{};  // "croupier-build: 1.0.0; segment 14, messages 1"
    std::size_t length = 0;
    std::size_t layouts_at = 0;

    constexpr void add(std::string_view more) {
        for (const char c : more) text.at(length++) = c;
    }
    constexpr void add(std::uint32_t number) {
        if (number >= 10) add(number / 10);
        text.at(length++) = static_cast<char>('0' + number % 10);
    }
    constexpr std::string_view layouts() const { return {text.data() + layouts_at, length - layouts_at}; }
};

// What of this build a client that lives has mapped or sends follows the version.
constexpr BuildNote build_note() {
    BuildNote note;
    note.add(kBuildNoteStart);
    note.add(CROUPIER_VERSION "; ");
    note.layouts_at = note.length;
    note.add("segment ");
    note.add(proto::kSegmentVersion);
    note.add(", messages ");
    note.add(wire::kWireVersion);
    return note;
}

}  // namespace croupier::shm
