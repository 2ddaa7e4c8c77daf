// `croupier bench cliffs`: a seeded search for requests that cost much more than others.
#pragma once

namespace CLI {
class App;
}

namespace croupier::bench {

void add_cliffs_bench(CLI::App& bench, int& status);

}  // namespace croupier::bench
