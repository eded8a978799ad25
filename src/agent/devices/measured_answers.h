// agent/devices/measured_answers.h
//
// Answers to kubelet that are timed.
#pragma once

#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

#include "agent/devices/kubelet_answers.h"
#include "base/clock.h"

namespace tessera::agent {

class MeasuredAnswers final : public KubeletAnswers {
 public:
  // What kubelet asked ("prefer", "allocate", "pre_start"), whether it got what it asked for, and how long
  // that took. On the thread that answers.
  using OnCall = std::function<void(std::string_view call, bool well, std::chrono::nanoseconds took)>;

  // `answers` must live longer. Without `on_call` nothing is timed.
  MeasuredAnswers(KubeletAnswers& answers, OnCall on_call)
      : answers_(answers), on_call_(std::move(on_call)) {}

  void prefer(Preference preference, std::function<void(std::vector<std::string>)> done) override {
    answers_.prefer(std::move(preference), timed<std::vector<std::string>>("prefer", std::move(done)));
  }
  void allocate(std::vector<std::string> ids, std::function<void(Result<Grant>)> done) override {
    answers_.allocate(std::move(ids), timed<Result<Grant>>("allocate", std::move(done)));
  }
  void pre_start(std::vector<std::string> ids, std::function<void(Status)> done) override {
    answers_.pre_start(std::move(ids), timed<Status>("pre_start", std::move(done)));
  }

 private:
  static bool is_well(const std::vector<std::string>& /*preferred*/) { return true; }
  template <class T>
  static bool is_well(const Result<T>& answer) {
    return answer.has_value();
  }

  template <class Answer>
  std::function<void(Answer)> timed(std::string_view call, std::function<void(Answer)> done) const {
    if (!on_call_) {
      return done;
    }
    return [on_call = on_call_, call, began = Clock::real().now(), done = std::move(done)](Answer answer) {
      on_call(call, is_well(answer), Clock::real().now() - began);
      done(std::move(answer));
    };
  }

  KubeletAnswers& answers_;
  const OnCall on_call_;
};

}  // namespace tessera::agent
