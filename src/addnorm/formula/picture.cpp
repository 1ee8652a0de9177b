#include "addnorm/formula/picture.h"

#include <algorithm>

#include "addnorm/base/error.h"

namespace addnorm::formula {
namespace {

constexpr size_t gap = 5;  // between pictures side by side: room for names

std::u32string wide(const std::string& text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    char32_t code = length == 1 ? first : first & (0xFFu >> (length + 1));
    for (size_t k = 1; k < length && i + k < text.size(); ++k) {
      code = (code << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3Fu);
    }
    out += code;
    i += length;
  }
  return out;
}

void append_utf8(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

void pad_left(Picture& picture, size_t count) {
  for (auto& row : picture.rows) row.insert(0, count, U' ');
  for (auto& inlet : picture.inlets) inlet.column += count;
  for (auto& outlet : picture.outlets) outlet += count;
}

void widen(Picture& picture, size_t width) {
  for (auto& row : picture.rows) row.resize(std::max(row.size(), width), U' ');
}

// Makes room for a text of `length` that is centred on `column`; returns where it begins.
size_t centre(Picture& picture, size_t column, size_t length) {
  const size_t half = length / 2;
  if (column < half) {
    pad_left(picture, half - column);
    column = half;
  }
  widen(picture, column - half + length);
  return column - half;
}

std::u32string blank(const Picture& picture) { return std::u32string(picture.width(), U' '); }

void put(std::u32string& row, size_t at, const std::u32string& text) {
  row.replace(at, text.size(), text);
}

size_t& outlet(Picture& picture) {
  ADDNORM_ASSERT(picture.outlets.size() == 1);
  return picture.outlets.front();
}

// A horizontal line over the columns, with the given ends and joints.
void put_rail(std::u32string& row, const std::vector<size_t>& columns, char32_t first,
              char32_t joint, char32_t last) {
  for (size_t c = columns.front(); c <= columns.back(); ++c) row[c] = U'─';
  for (const size_t c : columns) row[c] = joint;
  row[columns.front()] = first;
  row[columns.back()] = last;
}

}  // namespace

Picture line(const std::string& name) { return {{U"│"}, {{0, name}}, {0}}; }

Picture constant(const std::string& text) {
  Picture picture;
  const std::u32string row = wide(text);
  picture.rows = {row};
  picture.outlets = {row.size() / 2};
  add_line(picture);
  return picture;
}

void add_box(Picture& picture, const std::string& text, bool branch) {
  std::u32string inside = wide(text);
  if (inside.size() % 2 == 0) inside += U' ';
  while (inside.size() < 5) inside = U' ' + inside + U' ';
  const size_t length = inside.size() + 4;
  const size_t begin = centre(picture, outlet(picture), length);
  std::u32string top = blank(picture), middle = top, bottom = top;
  put(top, begin, std::u32string(length, branch ? U'═' : U'─'));
  put(bottom, begin, std::u32string(length, branch ? U'═' : U'─'));
  top[begin] = branch ? U'╔' : U'┌';
  top[begin + length - 1] = branch ? U'╗' : U'┐';
  bottom[begin] = branch ? U'╚' : U'└';
  bottom[begin + length - 1] = branch ? U'╝' : U'┘';
  middle[begin] = middle[begin + length - 1] = branch ? U'║' : U'│';
  put(middle, begin + 2, inside);
  top[outlet(picture)] = branch ? U'╧' : U'┴';
  bottom[outlet(picture)] = branch ? U'╤' : U'┬';
  picture.rows.insert(picture.rows.end(), {top, middle, bottom});
}

void add_text(Picture& picture, const std::string& text) {
  const std::u32string row_text = wide(text);
  const size_t begin = centre(picture, outlet(picture), row_text.size());
  picture.rows.push_back(blank(picture));
  put(picture.rows.back(), begin, row_text);
  add_line(picture);
}

void add_line(Picture& picture) {
  picture.rows.push_back(blank(picture));
  for (const size_t column : picture.outlets) picture.rows.back()[column] = U'│';
}

Picture beside(const std::vector<Picture>& pictures) {
  size_t height = 0;
  for (const Picture& picture : pictures) height = std::max(height, picture.rows.size());
  Picture all;
  all.rows.assign(height, U"");
  for (const Picture& picture : pictures) {
    if (all.width() > 0) widen(all, all.width() + gap);
    const size_t at = all.width();
    widen(all, at + picture.width());
    const size_t missing = height - picture.rows.size();
    for (size_t i = 0; i < missing; ++i) {
      for (const auto& inlet : picture.inlets) all.rows[i][at + inlet.column] = U'│';
    }
    for (size_t i = missing; i < height; ++i) put(all.rows[i], at, picture.rows[i - missing]);
    for (const auto& inlet : picture.inlets) all.inlets.push_back({at + inlet.column, inlet.name});
    for (const size_t out : picture.outlets) all.outlets.push_back(at + out);
  }
  return all;
}

void join(Picture& picture, const std::string& symbol) {
  if (picture.outlets.size() < 2) return;
  const std::u32string text = wide(symbol);
  const size_t begin = centre(picture, picture.outlets.front(), text.size());
  std::u32string row = blank(picture);
  put_rail(row, picture.outlets, U'─', U'┴', U'┘');
  put(row, begin, text);
  picture.rows.push_back(row);
  picture.outlets.resize(1);
  add_line(picture);
}

Picture feed(const Picture& upper, const std::string& name, const Picture& lower) {
  Picture top = upper;
  if (!name.empty()) add_text(top, name);
  Picture bottom = lower;
  for (auto& inlet : bottom.inlets) inlet.name = name;
  merge_inlets(bottom);
  const size_t from = outlet(top), to = bottom.inlets.front().column;
  if (from < to) pad_left(top, to - from);
  if (to < from) pad_left(bottom, from - to);
  const size_t width = std::max(top.width(), bottom.width());
  widen(top, width);
  widen(bottom, width);
  top.rows.insert(top.rows.end(), bottom.rows.begin(), bottom.rows.end());
  top.outlets = bottom.outlets;
  return top;
}

void merge_inlets(Picture& picture) {
  std::u32string row = blank(picture);
  std::vector<Picture::Inlet> merged;
  bool forks = false;
  for (size_t i = 0; i < picture.inlets.size();) {
    std::vector<size_t> columns;
    const Picture::Inlet first = picture.inlets[i];
    while (i < picture.inlets.size() && picture.inlets[i].name == first.name) {
      columns.push_back(picture.inlets[i++].column);
    }
    if (columns.size() > 1) {
      put_rail(row, columns, U'├', U'┬', U'┐');
      forks = true;
    } else {
      row[first.column] = U'│';
    }
    merged.push_back(first);
  }
  if (!forks) return;
  picture.rows.insert(picture.rows.begin(), row);
  picture.inlets = merged;
}

void label_inlets(Picture& picture) {
  for (size_t i = 0; i < picture.inlets.size(); ++i) {
    centre(picture, picture.inlets[i].column, wide(picture.inlets[i].name).size());
  }
  picture.rows.insert(picture.rows.begin(), blank(picture));
  for (const auto& inlet : picture.inlets) {
    const std::u32string text = wide(inlet.name);
    put(picture.rows.front(), inlet.column - text.size() / 2, text);
  }
}

void label_outlets(Picture& picture, const std::vector<std::string>& names) {
  ADDNORM_ASSERT(names.size() == picture.outlets.size());
  for (size_t i = 0; i < names.size(); ++i) {
    centre(picture, picture.outlets[i], wide(names[i]).size());
  }
  std::u32string row = blank(picture);
  for (size_t i = 0; i < names.size(); ++i) {
    const std::u32string text = wide(names[i]);
    put(row, picture.outlets[i] - text.size() / 2, text);
  }
  picture.rows.push_back(row);
}

Picture go_on(const Picture& upper, size_t column, Picture lower, size_t inlet) {
  Picture all = upper;
  const size_t to = lower.inlets[inlet].column;
  if (column < to) pad_left(all, to - column);
  if (to < column) pad_left(lower, column - to);
  const size_t width = std::max(all.width(), lower.width());
  widen(all, width);
  widen(lower, width);
  // Both have a row of labels there; the upper one keeps its own.
  std::u32string& labels = all.rows.back();
  for (size_t c = 0; c < width; ++c) {
    if (labels[c] == U' ') labels[c] = lower.rows.front()[c];
  }
  all.rows.insert(all.rows.end(), lower.rows.begin() + 1, lower.rows.end());
  all.outlets = lower.outlets;
  return all;
}

std::string utf8(const Picture& picture, size_t indent) {
  std::string out;
  for (std::u32string row : picture.rows) {
    row.erase(row.find_last_not_of(U' ') + 1);
    if (!row.empty()) out += std::string(indent, ' ');
    for (const char32_t code : row) append_utf8(out, code);
    out += '\n';
  }
  return out;
}

}  // namespace addnorm::formula
