// `croupier doctor`: whether this host is fit, and what to do where it is not.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

void add_doctor_command(CLI::App& app, int& status);

}  // namespace croupier::tools
