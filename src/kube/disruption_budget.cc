#include "kube/disruption_budget.h"

#include <algorithm>
#include <array>
#include <optional>

#include "kube/object_json.h"

namespace tessera::kube {

namespace {

using Term = DisruptionBudget::Term;
using simdjson::SUCCESS;

constexpr std::array<std::pair<std::string_view, Term::Operator>, 4> kOperators{
    {{"In", Term::Operator::kIn},
     {"NotIn", Term::Operator::kNotIn},
     {"Exists", Term::Operator::kExists},
     {"DoesNotExist", Term::Operator::kDoesNotExist}}};

// Of "key=value" lines.
std::optional<std::string_view> value_of(std::string_view labels, std::string_view key) {
  while (!labels.empty()) {
    const std::size_t end = labels.find('\n');
    const std::string_view line = labels.substr(0, end);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == '=') {
      return line.substr(key.size() + 1);
    }
    labels.remove_prefix(end == std::string_view::npos ? labels.size() : end + 1);
  }
  return std::nullopt;
}

bool holds(const Term& term, std::string_view labels) {
  const std::optional<std::string_view> value = value_of(labels, term.key);
  const bool listed = value && std::ranges::find(term.values, *value) != term.values.end();
  switch (term.operation) {
    case Term::Operator::kIn:
      return listed;
    case Term::Operator::kNotIn:
      return !listed;
    case Term::Operator::kExists:
      return value.has_value();
    case Term::Operator::kDoesNotExist:
      return !value;
  }
  return false;
}

JsonError read_term(JsonValue element, Term& term, bool& unknown) {
  return each_field(element, [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "key")) {
      return read_text(value, term.key);
    }
    if (is(key, "operator")) {
      std::string name;
      const JsonError error = read_text(value, name);
      const auto* const known = std::ranges::find(kOperators, name, &decltype(kOperators)::value_type::first);
      unknown = unknown || known == kOperators.end();
      term.operation = known == kOperators.end() ? Term::Operator::kIn : known->second;
      return error;
    }
    if (is(key, "values")) {
      return each_element(value, [&](JsonValue one) { return read_text(one, term.values.emplace_back()); });
    }
    return SUCCESS;
  });
}

JsonError read_selector(JsonValue selector, DisruptionBudget& budget, bool& unknown) {
  if (is_null(selector)) {
    return SUCCESS;
  }
  budget.selects = true;
  return each_field(selector, [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "matchLabels")) {
      return each_entry(value, [&](std::string_view label, JsonValue wanted) {
        Term& term = budget.selector.emplace_back(Term{.key = std::string(label)});
        return read_text(wanted, term.values.emplace_back());
      });
    }
    if (is(key, "matchExpressions")) {
      return each_element(
          value, [&](JsonValue one) { return read_term(one, budget.selector.emplace_back(), unknown); });
    }
    return SUCCESS;
  });
}

JsonError read_status(JsonValue status, DisruptionBudget& budget) {
  return each_field(status, [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "disruptionsAllowed")) {
      return value.get_int64().get(budget.allowed);
    }
    if (is(key, "disruptedPods")) {
      return each_entry(value, [&](std::string_view pod, JsonValue) {
        budget.disrupted.emplace_back(pod);
        return SUCCESS;
      });
    }
    return SUCCESS;
  });
}

}  // namespace

bool DisruptionBudget::covers(std::string_view pod, std::string_view labels) const {
  return selects && std::ranges::all_of(selector, [&](const Term& term) { return holds(term, labels); }) &&
         std::ranges::find(disrupted, pod) == disrupted.end();
}

Status decode_disruption_budget(ObjectJson& object, ObjectMeta& meta, DisruptionBudget& budget) {
  budget = {};
  bool unknown = false;
  TRY(object.judge(each_field(object.object(), [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "metadata")) {
      return read_meta(value, meta);
    }
    if (is(key, "spec")) {
      return each_field(value, [&](JsonKey field, JsonValue inner) {
        return is(field, "selector") ? read_selector(inner, budget, unknown) : SUCCESS;
      });
    }
    return is(key, "status") ? read_status(value, budget) : SUCCESS;
  })));
  if (unknown) {
    return fail(ErrorCode::kInvalid,
                "an operator of its selector is none of In, NotIn, Exists and DoesNotExist");
  }
  return {};
}

}  // namespace tessera::kube
