// Findings of one check: each mistake once however many layers show it, sorted by place.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/formula/lexer.h"
#include "addnorm/formula/program.h"

namespace addnorm::formula {

class Report {
 public:
  // `rule` tells different mistakes at one place apart. Place {0, 0} is the program as a whole.
  void add(Level level, const Place& at, const std::string& rule, std::string message) {
    if (!seen_.insert({at.line, at.column, rule}).second) return;
    const std::string place = at.line == 0 ? "formula" : where("formula", at);
    items_.push_back({at, {level, place, std::move(message)}});
  }
  void error(const Place& at, const std::string& rule, std::string message) {
    add(Level::error, at, rule, std::move(message));
  }

  bool empty() const { return items_.empty(); }

  Findings findings() const {
    std::vector<Item> sorted = items_;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Item& a, const Item& b) {
      return std::tie(a.at.line, a.at.column) < std::tie(b.at.line, b.at.column);
    });
    Findings result;
    for (Item& item : sorted) result.push_back(std::move(item.finding));
    return result;
  }

 private:
  struct Item {
    Place at;
    Finding finding;
  };
  std::vector<Item> items_;
  std::set<std::tuple<int, int, std::string>> seen_;
};

}  // namespace addnorm::formula
