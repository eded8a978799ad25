#include "base/uuid.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Uuid, ParsesAndPrintsTheSameText) {
  for (const char* text : {"5d3c0f1e-0000-4a5b-8c9d-ffffffffffff", "00000000-0000-0000-0000-000000000000"}) {
    const auto uuid = Uuid::parse(text);
    ASSERT_TRUE(uuid) << text;
    EXPECT_EQ(uuid->text(), text);
  }
}

TEST(Uuid, RejectsOtherText) {
  for (const char* text : {"", "5D3c0f1e-0000-4a5b-8c9d-ffffffffffff", "5d3c0f1e-0000-4a5b-8c9d-fffffffffff",
                           "5d3c0f1e00000-4a5b-8c9d-ffffffffffff", "5d3c0f1e-0000-4a5b-8c9d-fffffffffffg",
                           "5d3c0f1-e0000-4a5b-8c9d-ffffffffffff"}) {
    EXPECT_FALSE(Uuid::parse(text)) << text;
  }
}

}  // namespace
}  // namespace tessera
