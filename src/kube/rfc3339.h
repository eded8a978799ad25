// kube/rfc3339.h
//
// Parses times of the API server and of exec plugins. base/clock.h formats them.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace tessera::kube {

// Parses "2026-11-15T23:02:44Z", "…44.123456Z" or "…44+01:00". Truncates to microseconds. Returns
// kInvalid for other text, a date that does not exist, and years outside 1970..2261.
Result<Clock::Wall> parse_rfc3339(std::string_view text);

}  // namespace tessera::kube
