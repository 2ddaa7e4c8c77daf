// croupier bench controller: what moving the hot set while serving gains over every fixed one.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_controller_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench
