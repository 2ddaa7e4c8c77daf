#include "explain/target.h"

#include <hwy/targets.h>
#include <strings.h>

#include "explain/fields.h"

namespace croupier::explain {

std::int64_t target_of(const std::string& name) {
    use_target(std::nullopt);
    std::string here;
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
        const char* known = hwy::TargetName(target);
        if (::strcasecmp(known, name.c_str()) == 0) return target;
        here += (here.empty() ? "" : ", ") + std::string(known);
    }
    throw RequestError("target is " + shown(name) + "; this machine has " + here);
}

void use_target(std::optional<std::int64_t> target) {
    hwy::SetSupportedTargetsForTest(target.value_or(0));
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace croupier::explain
