// Text pictures of flows: lines enter at the top row under a name and leave at the bottom row. Made
// of box-drawing characters; the parts only know each other's columns.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace addnorm::formula {

struct Picture {
  struct Inlet {
    size_t column = 0;
    std::string name;
  };
  std::vector<std::u32string> rows;  // all of the same width
  std::vector<Inlet> inlets;         // at the top row, from left to right
  std::vector<size_t> outlets;       // at the bottom row, from left to right

  size_t width() const { return rows.empty() ? 0 : rows.front().size(); }
};

Picture line(const std::string& name);      // one line that enters as `name`
Picture constant(const std::string& text);  // a text, a line leaves below it

// All work at the only outlet.
void add_box(Picture& picture, const std::string& text, bool branch);  // branches have double lines
void add_text(Picture& picture, const std::string& text);              // written on the line
void add_line(Picture& picture);

// Next to each other; shorter ones are extended upward, so that all lines enter in one row.
Picture beside(const std::vector<Picture>& pictures);
// All outlets meet in `symbol`, at the first one.
void join(Picture& picture, const std::string& symbol);
// The outlet of `upper`, written as `name`, feeds every inlet of `lower`.
Picture feed(const Picture& upper, const std::string& name, const Picture& lower);

// Where neighbouring inlets have one name they become one, by a fork above them.
void merge_inlets(Picture& picture);
// Names above the inlets, and below the outlets.
void label_inlets(Picture& picture);
void label_outlets(Picture& picture, const std::vector<std::string>& names);
// `upper` ends with the label of an outlet in `column`; `lower` goes on there with its inlet
// `inlet`, whose own label is left out. Both have labels.
Picture go_on(const Picture& upper, size_t column, Picture lower, size_t inlet);

std::string utf8(const Picture& picture, size_t indent);  // rows without trailing spaces

}  // namespace addnorm::formula
