// cli/diagnose/why_json.h
//
// The JSON of one explanation, for the outputs about one pod and about several pods.
#pragma once

#include <boost/json.hpp>

#include "cli/diagnose/why.h"

namespace tessera::cli {

boost::json::object why_object(const WhyReport& report);

}  // namespace tessera::cli
