// The plan that follows from a request.
#include "request/plan.h"

#include <catch2/catch.hpp>
