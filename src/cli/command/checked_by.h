// cli/command/checked_by.h
//
// A parser as CLI11 wants a check: a malformed option ends the command before it does anything, with exit
// code 2 and the parser's words.
//
//   command->add_option("--unit", options->unit)->check(checked_by(alloc::Unit::parse));
#pragma once

#include <string>

namespace tessera::cli {

// CLI11 writes the name of the option before the message, so one that begins with it loses it.
template <class Parse>
auto checked_by(Parse parse) {
  return [parse](const std::string& text) {
    const auto parsed = parse(text);
    const std::string problem = parsed ? "" : parsed.error().text();
    return problem.starts_with("--") ? problem.substr(problem.find(": ") + 2) : problem;
  };
}

}  // namespace tessera::cli
