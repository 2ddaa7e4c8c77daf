// `croupier doctor`: whether this host is fit, and what to do where it is not.
#pragma once

namespace CLI {
class App;
}

namespace croupier::tools {

// The exit status for an option that it does not have, or for a value that the option does not take.
constexpr int kInvalidDoctorOption = 3;

void add_doctor_command(CLI::App& app, int& status);

}  // namespace croupier::tools
