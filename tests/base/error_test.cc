#include "base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/result.h"

namespace tessera {
namespace {

TEST(Error, PrependsTheContextOfCallers) {
  Error error = Error(ErrorCode::kInvalid, "IDX is \"x3\"").context("pod ml/train-7").context("node gpu-a");
  EXPECT_EQ(error.text(), "node gpu-a: pod ml/train-7: IDX is \"x3\"");
  EXPECT_EQ(error.message(), "IDX is \"x3\"");
  EXPECT_EQ(error.contexts(), (std::vector<std::string>{"pod ml/train-7", "node gpu-a"}));
  EXPECT_EQ(error.code(), ErrorCode::kInvalid);
}

TEST(Error, MapsErrnoToACode) {
  struct Case {
    int number;
    ErrorCode code;
  };
  for (const Case c : {Case{ENOENT, ErrorCode::kNotFound}, Case{EACCES, ErrorCode::kDenied},
                       Case{EEXIST, ErrorCode::kConflict}, Case{EINVAL, ErrorCode::kInvalid},
                       Case{ETIMEDOUT, ErrorCode::kTimeout}, Case{ENOSPC, ErrorCode::kExhausted},
                       Case{ENOSYS, ErrorCode::kUnsupported}, Case{ECANCELED, ErrorCode::kCancelled},
                       Case{EIO, ErrorCode::kUnavailable}}) {
    EXPECT_EQ(Error::from_errno("x", c.number).code(), c.code) << c.number;
  }
  EXPECT_EQ(Error::from_errno("open /dev/nvidia0", EACCES).text(), "open /dev/nvidia0: Permission denied");
}

TEST(Error, NamesEveryCode) {
  EXPECT_EQ(to_string(ErrorCode::kInvalid), "invalid");
  EXPECT_EQ(to_string(ErrorCode::kNotFound), "not found");
  EXPECT_EQ(to_string(ErrorCode::kInternal), "internal");
}

Result<int> half(int number) {
  if (number % 2 != 0) {
    return fail(ErrorCode::kInvalid, "odd");
  }
  return number / 2;
}

Status positive(int number) {
  return number > 0 ? Status() : fail(ErrorCode::kInvalid, "not positive");
}

Result<int> quarter(int number) {
  TRY(positive(number));
  const int halved = TRY(half(number));
  return TRY(with_context(half(halved), "the half"));
}

TEST(Result, TryEvaluatesToTheValueOrReturnsTheError) {
  EXPECT_EQ(quarter(8).value(), 2);
  EXPECT_EQ(quarter(7).error().text(), "odd");
  EXPECT_EQ(quarter(6).error().text(), "the half: odd");
  EXPECT_EQ(quarter(-4).error().text(), "not positive");
}

TEST(Result, TryMovesTheValue) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  const auto use = [&]() -> Result<int> {
    const std::unique_ptr<int> owned = TRY(make());
    return *owned;
  };
  EXPECT_EQ(use().value(), 7);
}

}  // namespace
}  // namespace tessera
