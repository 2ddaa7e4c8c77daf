// Writes config/croupierd.yaml and docs/configuration.md below the root of the repository that it is given.
#include <fstream>
#include <iostream>
#include <string>

#include "config/write.h"

namespace {

bool write_text(const std::string& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) std::cerr << path << ": cannot be written\n";
    return static_cast<bool>(out);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: config_reference <root of the repository>\n";
        return 2;
    }
    const std::string root = argv[1];
    const bool written = write_text(root + "/config/croupierd.yaml", croupier::config::example_yaml()) &&
                         write_text(root + "/docs/configuration.md", croupier::config::reference_markdown());
    return written ? 0 : 1;
}
