#include "config/config.h"

namespace croupier::config {

Config default_config(const proto::DefaultPaths& paths) {
    Config config;
    config.run_dir = paths.run_dir;
    config.shm.dir = paths.shm_dir;
    config.control.endpoint = paths.control_endpoint();
    return config;
}

}  // namespace croupier::config
