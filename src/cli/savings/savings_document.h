// cli/savings/savings_document.h
//
// The parts of a human-readable savings report, and their order. Each format derives a class that
// writes the parts. Private to cli/savings.
//
//   class Markdown final : public SavingsDocument { ... };
//   return Markdown(view).write();
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/savings/savings_words.h"

namespace tessera::cli {

class SavingsDocument {
 public:
  explicit SavingsDocument(const SavingsView& view) : view_(view), report_(view.report) {}
  SavingsDocument(const SavingsDocument&) = delete;
  SavingsDocument& operator=(const SavingsDocument&) = delete;
  virtual ~SavingsDocument() = default;

  std::string write() {
    add_answer();
    add_list("Warnings", warnings_shown(view_, most_warnings()));
    if (report_.gpus == 0) {
      return out_;
    }
    add_groups();
    if (report_.outcomes.size() > 1) {
      add_policies();
    }
    add_whole(whole_rows(view_));
    add_alone(alone_rows(view_));
    add_shared(shared_gpus(view_));
    add_idle(idle_pods(view_));
    add_list("How sure is the number?", confidence(view_));
    add_list("Rules of this plan", assumptions(view_));
    add_list("Left out", left_out(view_));
    return out_;
  }

 protected:
  // Each part appends to out_. A part with an empty argument writes nothing.
  virtual void add_answer() = 0;  // headline() and consequences()
  virtual void add_groups() = 0;
  virtual void add_policies() = 0;
  virtual void add_whole(const std::vector<WholeRow>& rows) = 0;
  virtual void add_alone(const std::vector<AloneRow>& rows) = 0;
  virtual void add_shared(const std::vector<const SharedGpu*>& gpus) = 0;
  virtual void add_idle(const std::vector<const SavingsPod*>& pods) = 0;
  virtual void add_list(std::string_view title, const std::vector<std::string>& lines) = 0;
  [[nodiscard]] virtual std::size_t most_warnings() const = 0;

  const SavingsView& view_;
  const SavingsReport& report_;
  std::string out_;
};

}  // namespace tessera::cli
