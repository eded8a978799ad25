// tests/cli/golden.h
//
// Compares the output of a command with tests/cli/golden/<name>. If TESSERA_WRITE_GOLDEN is set,
// writes the file instead; review it before you commit it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/file.h"

namespace tessera::cli {

inline void expect_golden(const std::string& name, const std::string& printed) {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/tests/cli/golden/" + name;
  if (std::getenv("TESSERA_WRITE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file(path, printed));
    return;
  }
  const auto expected = read_file(path);
  ASSERT_TRUE(expected) << expected.error().text();
  EXPECT_EQ(printed, *expected) << "differs from " << path;
}

}  // namespace tessera::cli
