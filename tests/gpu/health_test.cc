#include "gpu/health.h"

#include <gmock/gmock.h>

#include "gpu/nvml_abi.h"
#include "gpu/xid.h"

namespace tessera::gpu {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(Xid, ClassifiesByTheDefaultLists) {
  const XidRules rules;
  for (const std::uint64_t xid : {13U, 31U, 43U, 45U, 68U, 109U}) {
    EXPECT_EQ(rules.classify(xid), XidClass::kIgnored) << xid;
  }
  for (const std::uint64_t xid : {63U, 74U, 92U, 94U, 154U}) {
    EXPECT_EQ(rules.classify(xid), XidClass::kRecoverable) << xid;
  }
  for (const std::uint64_t xid : {48U, 62U, 64U, 79U, 95U, 119U, 140U, 999U, 12345U}) {
    EXPECT_EQ(rules.classify(xid), XidClass::kFatal) << xid;
  }
}

TEST(Xid, UserRulesOverrideTheDefaults) {
  const auto rules = XidRules::parse("ignored=62, 74 ; fatal=94,31;recoverable=13").value();
  EXPECT_EQ(rules.classify(62), XidClass::kIgnored);
  EXPECT_EQ(rules.classify(74), XidClass::kIgnored);
  EXPECT_EQ(rules.classify(94), XidClass::kFatal);
  EXPECT_EQ(rules.classify(31), XidClass::kFatal);
  EXPECT_EQ(rules.classify(13), XidClass::kRecoverable);
  EXPECT_EQ(rules.classify(43), XidClass::kIgnored);

  const auto quiet = XidRules::parse("ignored=all;fatal=79").value();
  EXPECT_EQ(quiet.classify(48), XidClass::kIgnored);
  EXPECT_EQ(quiet.classify(79), XidClass::kFatal);
}

TEST(Xid, RejectsInvalidRulesAndNamesTheWrongPart) {
  for (const char* text : {"ignored", "ignored=", "ignored=x", "forget=13", "fatal=0", "fatal=1,,2"}) {
    const auto rules = XidRules::parse(text);
    ASSERT_FALSE(rules) << text;
    EXPECT_EQ(rules.error().code(), ErrorCode::kInvalid);
  }
  EXPECT_THAT(XidRules::parse("fatal=1,seven").error().text(), HasSubstr("\"seven\""));
}

class Health : public testing::Test {
 protected:
  void probe(const Probe& probe) { gpu.on_probe(probe, clock.now()); }
  static Probe healthy_probe() {
    return {.failure = "", .recovery_action = abi::kRecoveryNone, .uncorrected_ecc = 0};
  }
  static Probe old_driver() { return {.failure = "", .recovery_action = {}, .uncorrected_ecc = 0}; }

  ManualClock clock;
  HealthRules rules;
  HealthTracker gpu{rules};
};

TEST_F(Health, IsHealthyUntilAnEventThatIsNotIgnored) {
  EXPECT_TRUE(gpu.healthy());
  probe(healthy_probe());
  EXPECT_TRUE(gpu.healthy());
  EXPECT_EQ(gpu.on_xid(31, clock.now()), XidClass::kIgnored);
  EXPECT_TRUE(gpu.healthy());
}

TEST_F(Health, IsHealthyAgainWhenTheDriverRequestsNoRecovery) {
  probe(healthy_probe());
  gpu.on_xid(79, clock.now());
  EXPECT_EQ(gpu.reason(), "XID 79 (the GPU has fallen off the bus)");
  Probe asks = healthy_probe();
  asks.recovery_action = abi::kRecoveryGpuReset;
  clock.advance(1h);
  probe(asks);
  EXPECT_EQ(gpu.reason(), "XID 79 (the GPU has fallen off the bus); the driver asks for a GPU reset");
  probe(healthy_probe());
  EXPECT_TRUE(gpu.healthy());
}

TEST_F(Health, DoesNotFlapWhileErrorsRepeat) {
  probe(healthy_probe());
  for (int i = 0; i < 20; ++i) {
    gpu.on_xid(94, clock.now());
    clock.advance(1s);
    probe(healthy_probe());
    EXPECT_FALSE(gpu.healthy());
  }
  clock.advance(1s);
  probe(healthy_probe());
  EXPECT_TRUE(gpu.healthy());
}

TEST_F(Health, NeedsAQuietPeriodIfTheDriverCannotReportRecovery) {
  probe(old_driver());
  gpu.on_xid(94, clock.now());
  clock.advance(29s);
  probe(old_driver());
  EXPECT_FALSE(gpu.healthy());
  clock.advance(1s);
  probe(old_driver());
  EXPECT_TRUE(gpu.healthy());

  gpu.on_xid(48, clock.now());
  clock.advance(299s);
  probe(old_driver());
  EXPECT_FALSE(gpu.healthy());
  clock.advance(1s);
  probe(old_driver());
  EXPECT_TRUE(gpu.healthy());
}

TEST_F(Health, IsHealthyImmediatelyAfterAReset) {
  probe(old_driver());
  gpu.on_xid(79, clock.now());
  probe({.failure = "GPU is lost", .lost = true});
  EXPECT_EQ(gpu.reason(), "XID 79 (the GPU has fallen off the bus); GPU is lost");
  EXPECT_FALSE(gpu.answers());
  probe(old_driver());
  EXPECT_TRUE(gpu.healthy());
}

TEST_F(Health, ASingleFailedProbeDoesNotCountAsReset) {
  probe(old_driver());
  gpu.on_xid(48, clock.now());
  probe({.failure = "Unknown Error"});
  probe(old_driver());
  EXPECT_THAT(gpu.reason(), HasSubstr("XID 48"));
  for (int probes = 0; probes < 3; ++probes) {
    probe({.failure = "Unknown Error"});
  }
  probe(old_driver());
  EXPECT_TRUE(gpu.healthy()) << "three missed probes count as a reset";
}

TEST_F(Health, RestoresTheReasonAfterARestart) {
  gpu.on_xid(48, clock.now());
  HealthTracker later{rules};
  later.restore(gpu.reason() + "; GPU is lost", clock.now());
  later.on_probe(old_driver(), clock.now());
  EXPECT_EQ(later.reason(), gpu.reason());
  clock.advance(299s);
  later.on_probe(old_driver(), clock.now());
  EXPECT_FALSE(later.healthy());
  clock.advance(1s);
  later.on_probe(old_driver(), clock.now());
  EXPECT_TRUE(later.healthy());

  HealthTracker worn{rules};
  worn.restore("uncorrectable memory error (ECC)", clock.now());
  EXPECT_FALSE(worn.healthy());
  for (const char* reason :
       {"", "the NVIDIA driver is not loaded", "XID 13 (a fault of a program)", "XID x"}) {
    HealthTracker unaffected{rules};
    unaffected.restore(reason, clock.now());
    EXPECT_TRUE(unaffected.healthy()) << reason;
  }
}

TEST_F(Health, CountsOnlyNewMemoryErrors) {
  Probe errors = old_driver();
  errors.uncorrected_ecc = 7;
  probe(errors);
  EXPECT_TRUE(gpu.healthy()) << "errors from before the first probe";
  errors.uncorrected_ecc = 8;
  probe(errors);
  EXPECT_THAT(gpu.reason(), HasSubstr("memory error"));
  probe(old_driver());  // 0: the counter restarted
  EXPECT_TRUE(gpu.healthy());
}

TEST_F(Health, FailedRowRemappingStaysUnhealthy) {
  Probe worn = healthy_probe();
  worn.row_remapping_failed = true;
  probe(worn);
  clock.advance(24h);
  probe(worn);
  EXPECT_THAT(gpu.reason(), HasSubstr("replace the GPU"));
}

TEST_F(Health, ReportsTheWorstCause) {
  probe(healthy_probe());
  gpu.on_xid(79, clock.now());
  gpu.on_xid(74, clock.now());
  EXPECT_THAT(gpu.reason(), HasSubstr("XID 79"));
}

}  // namespace
}  // namespace tessera::gpu
