// cli/command/checked_by.h
//
// Turns a parser into a CLI11 check: an invalid option value ends the command before it does
// anything, with exit code 2 and the parser's error message.
//
//   command->add_option("--unit", options->unit)->check(checked_by(alloc::Unit::parse));
#pragma once

#include <string>

namespace tessera::cli {

// Returns the check. CLI11 prints the option's name before the message. If the parser's message
// also starts with that name, the check removes it from the message, so that the name appears only
// once.
template <class Parse>
auto checked_by(Parse parse) {
  return [parse](const std::string& text) {
    const auto parsed = parse(text);
    const std::string problem = parsed ? "" : parsed.error().text();
    return problem.starts_with("--") ? problem.substr(problem.find(": ") + 2) : problem;
  };
}

}  // namespace tessera::cli
