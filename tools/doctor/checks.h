// All checks, in the order in which they are told. Their names are kept: others rely on them
// (docs/watching.md).
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/examined.h"
#include "tools/doctor/finding.h"

namespace croupier::tools::doctor {

struct Check {
    const char* id;
    Finding (*run)(const Examined&);
    bool of_files = false;  // what it looks at lies in /proc and /sys, so that a copy of them will do
};
const std::vector<Check>& all_checks();

// Skips those that are named by `without`, whole or by what stands before the point.
std::vector<Finding> run_checks(const Examined& examined, const std::vector<std::string>& without);

Finding check_config(const Examined& examined);

Finding check_instructions(const Examined& examined);
Finding check_cores(const Examined& examined);
Finding check_cpuset(const Examined& examined);
Finding check_quota(const Examined& examined);
Finding check_pinning(const Examined& examined);
Finding check_speed(const Examined& examined);

Finding check_sampler_nodes(const Examined& examined);
Finding check_gpu_nodes(const Examined& examined);
Finding check_links(const Examined& examined);

Finding check_mount(const Examined& examined);
Finding check_space(const Examined& examined);
Finding check_memory_limit(const Examined& examined);
Finding check_locked_memory(const Examined& examined);
Finding check_huge_pages(const Examined& examined);

Finding check_shm_directory(const Examined& examined);
Finding check_shm_files(const Examined& examined);
Finding check_run_files(const Examined& examined);
Finding check_logout(const Examined& examined);
Finding check_daemon_user(const Examined& examined);
Finding check_engine_user(const Examined& examined);

Finding check_daemon(const Examined& examined);
Finding check_daemon_samplers(const Examined& examined);
Finding check_daemon_version(const Examined& examined);
Finding check_metrics_address(const Examined& examined);
Finding check_peer(const Examined& examined);
Finding check_library(const Examined& examined);
Finding check_plugin(const Examined& examined);

}  // namespace croupier::tools::doctor
