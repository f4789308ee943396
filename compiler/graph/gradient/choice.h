#pragma once

#include <map>
#include <string>
#include <vector>

namespace kodama::compiler {

/// What an option like "adam:lr=0.002,beta1=0.8" chooses: a name, and numbers by their keys.
struct Choice {
  std::string name;
  std::map<std::string, double> numbers;

  double operator[](const std::string& key) const { return numbers.at(key); }
};

struct ChoiceKey {
  std::string name;
  double default_value = 0;
  std::string description = {};
};
/// A name that may be chosen, and its keys.
struct ChoiceRow {
  std::string name;
  std::string description;
  std::vector<ChoiceKey> keys = {};
};

/// Reads "NAME" or "NAME:KEY=NUMBER,..."; keys that aren't given have their defaults. UserError, beginning
/// with the option's name, that lists what is allowed.
Choice parse_choice(const std::string& option, const std::string& text, const std::vector<ChoiceRow>& rows);
/// "sgd:lr,decay | adam:lr,beta1,...": for help texts.
std::string choices_to_string(const std::vector<ChoiceRow>& rows);

}  // namespace kodama::compiler
