#include "addnorm/train/clip.h"

#include <algorithm>
#include <cmath>

#include "addnorm/base/error.h"
#include "addnorm/kernels/kernels.h"

namespace addnorm::train {

double gradient_norm(engine::Engine<float>& engine, Pieces& pieces) {
  return std::sqrt(pieces.sum([&](const Piece& piece) {
    const auto gradient = piece.of(engine.gradient(piece.parameter));
    return kernels::sum_squares(static_cast<kernels::Index>(gradient.size()), gradient.data());
  }));
}

double clip_factor(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1; }

void ClipWindow::add(bool clipped) {
  if (flags_.size() == size) flags_.erase(0, 1);
  flags_.push_back(clipped ? '1' : '0');
}

double ClipWindow::share() const {
  if (flags_.empty()) return 0;
  return static_cast<double>(std::count(flags_.begin(), flags_.end(), '1')) /
         static_cast<double>(flags_.size());
}

ClipWindow ClipWindow::from_text(const std::string& text) {
  if (text.size() > size || text.find_first_not_of("01") != std::string::npos) {
    fail_input("state.json",
               "expected clip_window of at most 100 digits 0 or 1, got \"" + text + "\"");
  }
  ClipWindow window;
  window.flags_ = text;
  return window;
}

}  // namespace addnorm::train
