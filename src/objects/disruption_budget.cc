#include "objects/disruption_budget.h"

#include <algorithm>
#include <array>
#include <utility>

#include "objects/object_fields.h"

namespace tessera::objects {

namespace {

using Term = DisruptionBudget::Term;
using simdjson::SUCCESS;

constexpr std::array<std::pair<std::string_view, Term::Operator>, 4> kOperators{
    {{"In", Term::Operator::kIn},
     {"NotIn", Term::Operator::kNotIn},
     {"Exists", Term::Operator::kExists},
     {"DoesNotExist", Term::Operator::kDoesNotExist}}};

bool holds(const Term& term, std::span<const LabelHash> labels) {
  const bool has_key = std::ranges::find(labels, term.key, &LabelHash::key) != labels.end();
  const bool listed = std::ranges::any_of(labels, [&](const LabelHash& label) {
    return std::ranges::find(term.labels, label.label) != term.labels.end();
  });
  switch (term.operation) {
    case Term::Operator::kIn:
      return listed;
    case Term::Operator::kNotIn:
      return !listed;
    case Term::Operator::kExists:
      return has_key;
    case Term::Operator::kDoesNotExist:
      return !has_key;
  }
  return false;
}

Term term_of(Term::Operator operation, std::string_view key, const std::vector<std::string>& values) {
  Term term{.operation = operation, .key = hash_of_label(key, "").key};
  for (const std::string& value : values) {
    term.labels.push_back(hash_of_label(key, value).label);
  }
  return term;
}

JsonError read_term(JsonValue element, Term& term, bool& unknown) {
  std::string label;
  std::string name;
  std::vector<std::string> values;
  const JsonError error = each_field(element, [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "key")) {
      return read_text(value, label);
    }
    if (is(key, "operator")) {
      return read_text(value, name);
    }
    if (is(key, "values")) {
      return each_element(value, [&](JsonValue one) { return read_text(one, values.emplace_back()); });
    }
    return SUCCESS;
  });
  const auto* const known = std::ranges::find(kOperators, name, &decltype(kOperators)::value_type::first);
  unknown = unknown || known == kOperators.end();
  term = term_of(known == kOperators.end() ? Term::Operator::kIn : known->second, label, values);
  return error;
}

JsonError read_selector(JsonValue selector, DisruptionBudget& budget, bool& unknown) {
  if (is_null(selector)) {
    return SUCCESS;
  }
  budget.selects = true;
  return each_field(selector, [&](JsonKey key, JsonValue value) -> JsonError {
    if (is(key, "matchLabels")) {
      return each_entry(value, [&](std::string_view label, JsonValue wanted) {
        std::string text;
        const JsonError error = read_text(wanted, text);
        budget.selector.push_back(term_of(Term::Operator::kIn, label, {text}));
        return error;
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

bool DisruptionBudget::covers(std::string_view pod, std::span<const LabelHash> labels) const {
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
                "the selector has an operator other than In, NotIn, Exists and DoesNotExist");
  }
  return {};
}

}  // namespace tessera::objects
