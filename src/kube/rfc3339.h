// kube/rfc3339.h
//
// Times as the API server and exec plugins write them; base/clock.h prints them.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace tessera::kube {

// "2026-11-15T23:02:44Z", "…44.123456Z", "…44+01:00". Fractions finer than a microsecond are cut off.
// kInvalid for anything else, a date that does not exist, and years outside 1970..2262.
Result<Clock::Wall> parse_rfc3339(std::string_view text);

}  // namespace tessera::kube
