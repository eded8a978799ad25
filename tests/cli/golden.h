// tests/cli/golden.h
//
// Compares what a command printed with tests/cli/golden/<name>. With TESSERA_WRITE_GOLDEN set the file is
// written instead, to be read over before it is committed.
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
