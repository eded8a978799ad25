#include "alloc/gpu_uuid.h"

#include <gtest/gtest.h>

namespace tessera::alloc {
namespace {

TEST(GpuUuid, PrintsTheTextThatItWasMadeFrom) {
  for (const char* text :
       {"GPU-5d3c0f1e-0000-4a5b-8c9d-ffffffffffff", "MIG-5d3c0f1e-0000-4a5b-8c9d-ffffffffffff", "index-0", "",
        "GPU-5D3C0F1E-0000-4A5B-8C9D-FFFFFFFFFFFF", "GPU-5d3c0f1e-0000-4a5b-8c9d-fffffffffff",
        "GPU-5d3c0f1e-0000-4a5b-8c9d-ffffffffffff0", "GPU-5d3c0f1e00000-4a5b-8c9d-ffffffffffff",
        "GPU-5d3c0f1e-0000-4a5b-8c9d-fffffffffffg", "gpu-5d3c0f1e-0000-4a5b-8c9d-ffffffffffff"}) {
    EXPECT_EQ(GpuUuid(text).text(), text);
  }
  EXPECT_EQ(GpuUuid().text(), "");
}

TEST(GpuUuid, IsEqualOnlyForEqualText) {
  const GpuUuid a("GPU-00000000-0000-0000-0000-000000000001");
  EXPECT_EQ(a, GpuUuid("GPU-00000000-0000-0000-0000-000000000001"));
  EXPECT_NE(a, GpuUuid("GPU-00000000-0000-0000-0000-000000000002"));
  EXPECT_NE(a, GpuUuid("GPU-00000000-0000-0000-0000-00000000000A"));
  EXPECT_EQ(GpuUuid("index-3"), GpuUuid("index-3"));
  EXPECT_NE(GpuUuid("index-3"), GpuUuid("index-4"));
}

TEST(GpuUuid, IsOrdered) {
  const GpuUuid one("GPU-00000000-0000-0000-0000-000000000001");
  const GpuUuid two("GPU-00000000-0000-0000-0000-000000000002");
  const GpuUuid other("index-0");
  EXPECT_LT(one, two);
  EXPECT_LT(GpuUuid("index-0"), GpuUuid("index-1"));
  EXPECT_TRUE((one < other) != (other < one));
}

}  // namespace
}  // namespace tessera::alloc
