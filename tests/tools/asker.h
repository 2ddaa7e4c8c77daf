// Asks `croupier decide` in-process: a request's text in, its answer parsed.
#pragma once

#include <string>

#include "tools/decide/answer.h"

namespace croupier::tools {

using namespace explain;

class Asker {
  public:
    Json operator()(const std::string& line) {
        return Json::parse(answer_line(line, "line 7", files_, decider_));
    }
    Json operator()(const Json& request) { return (*this)(request.dump()); }
    std::string error(const std::string& line) { return (*this)(line).at("error").get<std::string>(); }
    std::int32_t token(const Json& request) {
        return (*this)(request).at("tokens").at(0).get<std::int32_t>();
    }

  private:
    RowFiles files_;
    Decider decider_;
};

// The request with a key more, or another value for it.
inline Json with(Json request, const char* key, const Json& value) {
    request[key] = value;
    return request;
}

}  // namespace croupier::tools
