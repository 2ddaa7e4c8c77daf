#include "config/write.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string_view>

#include "config/schema.h"

namespace croupier::config {

namespace {

constexpr std::size_t comment_width = 100;

std::string_view section_of(std::string_view path) {
    const std::size_t dot = path.rfind('.');
    return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view leaf_of(std::string_view path) {
    return path.substr(path.rfind('.') + 1);
}

std::string indent_of(std::string_view path) {
    return std::string(2 * static_cast<std::size_t>(std::count(path.begin(), path.end(), '.')), ' ');
}

void write_comment(std::ostream& out, const std::string& indent, const std::string& text) {
    std::istringstream words(text);
    std::string line = indent + "#";
    for (std::string word; words >> word;) {
        if (line.size() + 1 + word.size() > comment_width) {
            out << line << "\n";
            line = indent + "#";
        }
        line += " " + word;
    }
    out << line << "\n";
}

std::string change_text(const Key& key) {
    return key.change == Change::reload ? "SIGHUP reloads it" : "a change takes a restart";
}

void open_section(std::ostream& out, std::string_view path, bool explained) {
    if (path.empty()) return;
    const std::string indent = indent_of(path);
    if (explained) {
        out << "\n";
        write_comment(out, indent, find_section(path)->help);
    }
    out << indent << leaf_of(path) << ":\n";
}

std::string yaml(const Config& config, bool explained) {
    std::ostringstream out;
    std::string_view section;
    for (const Key& key : keys()) {
        if (section_of(key.path) != section) {
            section = section_of(key.path);
            open_section(out, section, explained);
        }
        const std::string indent = indent_of(key.path);
        const std::string value = key.write(config);
        if (explained) {
            write_comment(out, indent, key.help);
            write_comment(out, indent,
                          "Allowed: " + key.allowed + ". Default: " + value + "; " + change_text(key) + ".");
        }
        out << indent << leaf_of(key.path) << ": " << value << "\n";
    }
    return out.str();
}

// A | would end the cell, and < would begin a tag.
std::string cell(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '|' || c == '<') escaped += '\\';
        escaped += c;
    }
    return escaped;
}

void write_table(std::ostream& out, std::string_view section) {
    const Config defaults;
    out << "| key | allowed | default | a change takes | meaning |\n| --- | --- | --- | --- | --- |\n";
    for (const Key& key : keys()) {
        if (section_of(key.path) != section) continue;
        out << "| `" << key.path << "` | " << key.type;
        if (key.allowed != key.type) out << ": " << cell(key.allowed);
        out << " | `" << key.write(defaults) << "` | "
            << (key.change == Change::reload ? "SIGHUP" : "restart") << " | " << cell(key.help) << " |\n";
    }
}

constexpr std::string_view example_head =
    "# Configuration of croupierd. Every key is listed with its default, so an empty file has the same "
    "effect.\n"
    "# Unknown keys, keys given twice and values out of range are errors. docs/configuration.md is the "
    "reference.\n"
    "\n";

constexpr std::string_view reference_head =
    "# Configuration\n"
    "\n"
    "This page lists the keys of the daemon's YAML file. It and the example, `config/croupierd.yaml`, are\n"
    "generated from `config/schema.cpp` by the target `config_reference`; a test compares them.\n"
    "\n"
    "A key such as `metrics.listen` is written below its section:\n"
    "\n"
    "    metrics:\n"
    "      listen: 127.0.0.1:9500\n"
    "\n"
    "- A key that is left out has its default, and so does every key of an empty file.\n"
    "- Unknown keys, repeated keys, and values of a wrong type or out of range are errors. All errors of a\n"
    "  file are reported at once, each with its line, column, key and allowed values.\n"
    "- A size is a number of bytes, or a number with KiB, MiB, GiB or TiB and no space: `16GiB`.\n"
    "- Whole numbers have no quotes, units or leading zeros. A file mode may have quotes.\n"
    "- Anchors, aliases, tags and multi-line texts are not accepted. A file has at most 1 MiB.\n"
    "- On SIGHUP the daemon reads its file again. Keys marked SIGHUP change at once; others keep their\n"
    "  running value until a restart. A file with an error changes nothing.\n"
    "\n"
    "Beyond each key's own range:\n"
    "\n"
    "- `sessions.max_segment_bytes` is at most `sessions.max_total_bytes`.\n"
    "- A `tcp://` endpoint needs both `control.curve.secret_key_file` and "
    "`control.curve.authorized_keys_file`;\n"
    "  one without the other is an error.\n"
    "\n"
    "`croupierd --check-config` checks a file, and this host: a missing group or CURVE key is an error;\n"
    "cores or memory that are absent, and keys that this user cannot read, are warnings.\n"
    "\n"
    "## Without a file\n"
    "\n"
    "Without `--config`, `croupierd` reads `/etc/croupier/croupierd.yaml` if that exists and the daemon\n"
    "runs as root or as a user who may write to `/run/croupier`. Otherwise it uses its built-in\n"
    "defaults; `croupierd --print-config` prints them. The tables below show root's defaults. Another\n"
    "user's daemon has these instead, also for keys that its file leaves out:\n"
    "\n"
    "| key | default of an ordinary user's daemon |\n"
    "| --- | --- |\n"
    "| `run_dir` | `$XDG_RUNTIME_DIR/croupier`; `/tmp/croupier-UID` if that variable names no folder that "
    "this "
    "user owns |\n"
    "| `shm.dir` | `/dev/shm/croupier-UID`; a longer name if another user has this one |\n"
    "| `control.endpoint` | the file control.sock in the default `run_dir` |\n"
    "\n"
    "That `run_dir` has mode 0700, so no other user reaches the sockets. Both folders are removed when\n"
    "the daemon has ended. `croupier status`, `top`, `trace` and `cleanup` use them without options. An\n"
    "engine that names no endpoint, and `croupier doctor`, use this user's daemon, or the host's if only\n"
    "that one runs.\n";

}  // namespace

std::string to_yaml(const Config& config) {
    return yaml(config, false);
}

std::string example_yaml() {
    return std::string(example_head) + yaml(Config{}, true);
}

std::string reference_markdown() {
    std::ostringstream out;
    out << reference_head << "\n## Top-level keys\n\n";
    write_table(out, "");
    for (const Section& section : sections()) {
        out << "\n## `" << section.path << "`\n\n" << section.help << "\n\n";
        write_table(out, section.path);
    }
    return out.str();
}

}  // namespace croupier::config
