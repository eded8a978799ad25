// cli/command/plain_error.h
//
// Says in plain words what CLI11 says about an invalid option:
//
//   --interval: Value 0 not in range 1 to 3600   ->  --interval is 0, but must be from 1 to 3600
//   --output: xml not in {text,json}             ->  --output is "xml", but must be text or json
//
// The exceptions of CLI11 carry only a text, so plain_error() parses that text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::cli {

// Returns the plain message, or `text` itself if it is another kind of message. `commands` are the
// subcommands of the command that was chosen.
std::string plain_error(std::string_view text, const std::vector<std::string>& commands);

}  // namespace tessera::cli
